"""What one core of this machine can do at most: products a second, and bytes read a second."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

_SIDE = 512
_TRIES = 15
_BYTES_A_TRY = 2**26


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The best of many tries, on one thread.

    Attributes:
        operations: Multiplications and additions a second of a matrix product, by precision.
        bandwidth: Bytes a second when as many bytes as the key are read again and again: small
            amounts stay in the caches.
    """

    operations: Mapping[str, float]
    bandwidth: Mapping[int, float]


def measure_limits(amounts: list[int]) -> Limits:
    """Measure this machine; takes seconds.

    Args:
        amounts: Numbers of bytes whose reading is to be measured.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return Limits(
            operations={precision: _product_rate(precision) for precision in ("float32", "bfloat16", "int8")},
            bandwidth={amount: _read_rate(amount) for amount in sorted(set(amounts))},
        )
    finally:
        torch.set_num_threads(threads)


def _product_rate(precision: str) -> float:
    """Of square matrices that fit the nearest cache but one; int8 products are summed in int32."""
    if precision == "int8":
        left, right = (torch.randint(-100, 100, (_SIDE, _SIDE), dtype=torch.int8) for _ in range(2))
        seconds = _least_seconds(lambda: torch._int_mm(left, right))
    else:
        one, other = (torch.randn(_SIDE, _SIDE).to(getattr(torch, precision)) for _ in range(2))
        seconds = _least_seconds(lambda: one @ other)
    return 2 * _SIDE**3 / seconds


def _read_rate(amount: int) -> float:
    """By searching for the greatest of so many bytes of float32."""
    numbers = torch.randn(max(1, amount // 4))
    repeats = max(1, _BYTES_A_TRY // amount)

    def read() -> Tensor:
        for _ in range(repeats - 1):
            numbers.amax()
        return numbers.amax()

    return numbers.nbytes * repeats / _least_seconds(read)


def _least_seconds(run: Callable[[], Tensor]) -> float:
    run()
    durations = []
    for _ in range(_TRIES):
        start = time.perf_counter()
        run()
        durations.append(time.perf_counter() - start)
    return min(durations)
