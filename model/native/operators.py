"""ⓔ What a training step computes in the native library: addresses in, numbers written in place.

The structures are laid out as in src/ (smoothed_loss.h and its neighbours).
"""

import ctypes
from collections.abc import Mapping, Sequence
from ctypes import Structure, c_double, c_float, c_int32, c_int64, c_void_p
from functools import cache
from typing import Any

from model.errors import NativeError
from model.native.binding import Library, load_library


class LossRows(Structure):
    """Rows of scores and their labels; see smoothed_loss.h."""

    _fields_ = (
        ("logits", c_void_p),
        ("labels", c_void_p),
        ("normalisers", c_void_p),
        ("row_stride", c_int64),
        ("rows", c_int64),
        ("vocabulary", c_int64),
        ("pad_id", c_int64),
        ("share", c_double),
        ("other", c_double),
        ("is_bfloat16", c_int32),
        ("threads", c_int32),
    )


_POINTER = ctypes.POINTER
_FUNCTIONS: Mapping[str, Sequence[Any]] = {
    "lend_threads": (c_void_p,),
    "smoothed_loss": (_POINTER(LossRows), _POINTER(c_double)),
    "smoothed_loss_gradient": (_POINTER(LossRows), c_float, c_void_p),
}


class Operators:
    """The functions of one library; calls release the interpreter's lock.

    Args:
        library: Where they are.
    """

    def __init__(self, library: Library) -> None:
        self._functions = {
            name: library.function(f"dragoman_{name}", list(_FUNCTIONS[name])) for name in _FUNCTIONS
        }

    def lend_threads(self, address: int | None) -> None:
        """Let a function that works as GOMP_parallel does lend its threads; None for the library's own."""
        self._functions["lend_threads"](address)

    def smoothed_loss(self, rows: LossRows) -> tuple[float, float]:
        """Smoothed loss and cross entropy, summed; writes the normalisers."""
        sums = (c_double * 2)()
        self._functions["smoothed_loss"](rows, sums)
        return sums[0], sums[1]

    def smoothed_loss_gradient(self, rows: LossRows, scale: float, gradient: int) -> None:
        """Writes the gradient of `scale` times the smoothed loss."""
        self._functions["smoothed_loss_gradient"](rows, scale, gradient)


@cache
def load_operators() -> Operators | None:
    """Of the fastest library; None where there is none, as load_library says."""
    try:
        return Operators(load_library())
    except NativeError:
        return None
