"""⑤ A few sizes that stand for all: a step is rounded up to one of them. No torch."""

from bisect import bisect_left
from collections.abc import Sequence


def doubling(first: int, last: int) -> tuple[int, ...]:
    """`first`, twice that, four times that… and `last`."""
    sizes = [first]
    while sizes[-1] < last:
        sizes.append(2 * sizes[-1])
    return (*(size for size in sizes if size < last), last)


def rounded_up(size: int, sizes: Sequence[int]) -> int:
    """The smallest of the ascending sizes that holds this one."""
    return sizes[bisect_left(sizes, size)]
