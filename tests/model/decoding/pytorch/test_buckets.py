import pytest

from model.decoding.pytorch.static_runner import doubling, rounded_up


@pytest.mark.parametrize(
    ("first", "last", "sizes"),
    [(16, 100, (16, 32, 64, 100)), (16, 64, (16, 32, 64)), (8, 8, (8,)), (8, 5, (5,)), (1, 3, (1, 2, 3))],
)
def test_sizes_double_up_to_the_last(first: int, last: int, sizes: tuple[int, ...]) -> None:
    assert doubling(first, last) == sizes


def test_the_smallest_that_holds_it() -> None:
    assert [rounded_up(size, (1, 8, 12)) for size in (1, 2, 8, 9, 12)] == [1, 8, 8, 12, 12]
