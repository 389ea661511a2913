"""ⓔ What a training step computes in the native library: addresses in, numbers written in place.

The structures are laid out as in src/training/.
"""

import ctypes
import logging
from collections.abc import Mapping, Sequence
from ctypes import Structure, c_double, c_float, c_int32, c_int64, c_uint32, c_uint64, c_void_p
from functools import cache
from typing import Any

from model.errors import NativeError
from model.native.binding import Library, load_library

logger = logging.getLogger(__name__)


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
        ("smoothing", c_double),
        ("other_probability", c_double),
        ("is_bfloat16", c_int32),
        ("threads", c_int32),
    )


class DropoutStruct(Structure):
    """A mask that follows from its seed; see dropout.h."""

    _fields_ = (("seed", c_uint64), ("threshold", c_uint32), ("scale", c_float))


class DropoutAdd(Structure):
    """A stream and what is added to it; see residual.h."""

    _fields_ = (
        ("stream", c_void_p),
        ("update", c_void_p),
        ("sum", c_void_p),
        ("size", c_int64),
        ("dropout", DropoutStruct),
        ("update_is_bfloat16", c_int32),
        ("sum_is_bfloat16", c_int32),
        ("threads", c_int32),
    )


class NormedRows(Structure):
    """Rows and their layer norm; see residual.h."""

    _fields_ = (
        ("rows_in", c_void_p),
        ("gain", c_void_p),
        ("shift", c_void_p),
        ("normed", c_void_p),
        ("means", c_void_p),
        ("factors", c_void_p),
        ("rows", c_int64),
        ("width", c_int64),
        ("epsilon", c_float),
        ("normed_is_bfloat16", c_int32),
        ("threads", c_int32),
    )


class NormGradients(Structure):
    """Where the gradients of a layer norm go; see residual.h."""

    _fields_ = (
        ("upstream", c_void_p),
        ("rows", c_void_p),
        ("gain", c_void_p),
        ("shift", c_void_p),
    )


class SentenceAttention(Structure):
    """Queries, keys and values of whole sentences; see sentence_attention.h."""

    _fields_ = (
        ("queries", c_void_p),
        ("keys", c_void_p),
        ("values", c_void_p),
        ("visible", c_void_p),
        ("weights", c_void_p),
        ("query_stride", c_int64),
        ("key_stride", c_int64),
        ("sentences", c_int64),
        ("num_queries", c_int64),
        ("num_keys", c_int64),
        ("heads", c_int32),
        ("width", c_int32),
        ("scale", c_float),
        ("is_causal", c_int32),
        ("dropout", DropoutStruct),
        ("is_bfloat16", c_int32),
        ("threads", c_int32),
    )


class AttentionGradients(Structure):
    """Where the gradients of attention go; see sentence_attention.h."""

    _fields_ = (
        ("output", c_void_p),
        ("queries", c_void_p),
        ("keys", c_void_p),
        ("values", c_void_p),
    )


class Projection(Structure):
    """The weight of a projection, and how many rows go through it; see projection.h."""

    _fields_ = (
        ("weight", c_void_p),
        ("bias", c_void_p),
        ("rows", c_int64),
        ("inputs", c_int64),
        ("outputs", c_int64),
        ("threads", c_int32),
    )


_POINTER = ctypes.POINTER
_FUNCTIONS: Mapping[str, Sequence[Any]] = {
    "smoothed_loss": (_POINTER(LossRows), _POINTER(c_double)),
    "smoothed_loss_gradient": (_POINTER(LossRows), c_float, c_void_p),
    "dropout_add": (_POINTER(DropoutAdd),),
    "norm_rows": (_POINTER(NormedRows),),
    "norm_rows_gradient": (_POINTER(NormedRows), _POINTER(NormGradients)),
    "project": (_POINTER(Projection), c_void_p, c_void_p),
    "project_gradient": (_POINTER(Projection), c_void_p, c_void_p),
    "project_weight_gradient": (_POINTER(Projection), c_void_p, c_void_p, c_void_p, c_void_p),
    "attend_sentences": (_POINTER(SentenceAttention), c_void_p),
    "attend_sentences_gradient": (_POINTER(SentenceAttention), _POINTER(AttentionGradients)),
}


class Operators:
    """The functions of one library; calls release the interpreter's lock.

    Those that compute raise MemoryError where there is no memory for what they need on the way.

    Args:
        library: Where they are.

    Attributes:
        has_bfloat16_products: Whether there is `project` with its gradients.
    """

    def __init__(self, library: Library) -> None:
        self._functions = {
            name: library.fallible_function(f"dragoman_{name}", arguments)
            for name, arguments in _FUNCTIONS.items()
        }
        self._lend_threads = library.function("dragoman_lend_threads", (c_void_p,))
        self.has_bfloat16_products = bool(library.function("dragoman_has_bfloat16_products", (), c_int32)())

    def lend_threads(self, address: int | None) -> None:
        """Let a function that works as GOMP_parallel does lend its threads; None for the library's own."""
        self._lend_threads(address)

    def smoothed_loss(self, rows: LossRows) -> tuple[float, float]:
        """Smoothed loss and cross entropy, summed; writes the normalisers."""
        sums = (c_double * 2)()
        self._functions["smoothed_loss"](rows, sums)
        return sums[0], sums[1]

    def smoothed_loss_gradient(self, rows: LossRows, scale: float, gradient: int) -> None:
        """Writes the gradient of `scale` times the smoothed loss."""
        self._functions["smoothed_loss_gradient"](rows, scale, gradient)

    def dropout_add(self, dropped: DropoutAdd) -> None:
        """Writes the sum."""
        self._functions["dropout_add"](dropped)

    def norm_rows(self, norm: NormedRows) -> None:
        """Writes the norm, and what its gradient needs."""
        self._functions["norm_rows"](norm)

    def norm_rows_gradient(self, norm: NormedRows, gradients: NormGradients) -> None:
        """Writes the gradients; `norm.normed` is that of what the norm gave."""
        self._functions["norm_rows_gradient"](norm, gradients)

    def attend_sentences(self, attention: SentenceAttention, joined: int) -> None:
        """Writes the joined heads, and the shares that the gradient needs."""
        self._functions["attend_sentences"](attention, joined)

    def attend_sentences_gradient(self, attention: SentenceAttention, gradients: AttentionGradients) -> None:
        """Writes the gradients of queries, keys and values."""
        self._functions["attend_sentences_gradient"](attention, gradients)

    def project(self, projection: Projection, inputs: int, outputs: int) -> None:
        """Writes the outputs, bfloat16 like the inputs."""
        self._functions["project"](projection, inputs, outputs)

    def project_gradient(self, projection: Projection, slope: int, of_inputs: int) -> None:
        """Writes the gradient of the inputs, bfloat16 like that of the outputs."""
        self._functions["project_gradient"](projection, slope, of_inputs)

    def project_weight_gradient(
        self, projection: Projection, slope: int, inputs: int, of_weight: int, of_bias: int | None
    ) -> None:
        """Writes the gradients of weight and bias, float32."""
        self._functions["project_weight_gradient"](projection, slope, inputs, of_weight, of_bias)


@cache
def load_operators() -> Operators | None:
    """Of the fastest library; None where there is none, and then the log says why."""
    try:
        return Operators(load_library())
    except NativeError as reason:
        logger.info("training with PyTorch alone, not natively: %s", reason)
        return None
