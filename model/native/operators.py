"""ⓔ The operators of a training step in the native library, which read and write tensors by address.

src/training/operators.h has the same structs, and describes their fields.
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

_POINTER = ctypes.POINTER


class LossRows(Structure):
    """Rows of logits and their labels."""

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
    """Dropout with the mask of a seed."""

    _fields_ = (("seed", c_uint64), ("threshold", c_uint32), ("scale", c_float))


class DropoutAdd(Structure):
    """A residual stream and the update that is added to it after dropout."""

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
    """Rows and their layer norm."""

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
    """The gradients of a layer norm."""

    _fields_ = (
        ("upstream", c_void_p),
        ("rows", c_void_p),
        ("gain", c_void_p),
        ("shift", c_void_p),
    )


class SentenceAttention(Structure):
    """Queries, keys and values of whole sentences."""

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
    """The gradients of attention: of its output, and of queries, keys and values."""

    _fields_ = (
        ("output", c_void_p),
        ("queries", c_void_p),
        ("keys", c_void_p),
        ("values", c_void_p),
    )


class Projection(Structure):
    """A projection and the number of rows that it is applied to."""

    _fields_ = (
        ("weight", c_void_p),
        ("bias", c_void_p),
        ("rows", c_int64),
        ("inputs", c_int64),
        ("outputs", c_int64),
        ("threads", c_int32),
    )


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
    """The training operators of one library. Calls release the interpreter's lock.

    Operators raise MemoryError if the library cannot allocate memory.

    Args:
        library: The library.

    Attributes:
        has_bfloat16_products: Whether the library has `project` and its gradients.
    """

    def __init__(self, library: Library) -> None:
        self._functions = {
            name: library.fallible_function(f"dragoman_{name}", arguments)
            for name, arguments in _FUNCTIONS.items()
        }
        self._lend_threads = library.function("dragoman_lend_threads", (c_void_p,))
        self.has_bfloat16_products = bool(library.function("dragoman_has_bfloat16_products", (), c_int32)())

    def lend_threads(self, address: int | None) -> None:
        """Use the threads of a function like GOMP_parallel; None starts threads of the library's own."""
        self._lend_threads(address)

    def smoothed_loss(self, rows: LossRows) -> tuple[float, float]:
        """Sums of smoothed loss and cross entropy. Writes the normalisers."""
        sums = (c_double * 2)()
        self._functions["smoothed_loss"](rows, sums)
        return sums[0], sums[1]

    def smoothed_loss_gradient(self, rows: LossRows, scale: float, gradient: int) -> None:
        """Write the gradient of `scale` times the smoothed loss."""
        self._functions["smoothed_loss_gradient"](rows, scale, gradient)

    def dropout_add(self, dropped: DropoutAdd) -> None:
        """Write the sum."""
        self._functions["dropout_add"](dropped)

    def norm_rows(self, norm: NormedRows) -> None:
        """Write the norm, and the means and factors for its gradient."""
        self._functions["norm_rows"](norm)

    def norm_rows_gradient(self, norm: NormedRows, gradients: NormGradients) -> None:
        """Write the gradients; `norm.normed` is the gradient of the norm's result."""
        self._functions["norm_rows_gradient"](norm, gradients)

    def attend_sentences(self, attention: SentenceAttention, output: int) -> None:
        """Write the concatenated heads, and the attention weights for the gradient."""
        self._functions["attend_sentences"](attention, output)

    def attend_sentences_gradient(self, attention: SentenceAttention, gradients: AttentionGradients) -> None:
        """Write the gradients of queries, keys and values."""
        self._functions["attend_sentences_gradient"](attention, gradients)

    def project(self, projection: Projection, inputs: int, outputs: int) -> None:
        """Write the outputs, in bfloat16 like the inputs."""
        self._functions["project"](projection, inputs, outputs)

    def project_gradient(self, projection: Projection, output_gradient: int, input_gradient: int) -> None:
        """Write the gradient of the inputs, in bfloat16 like that of the outputs."""
        self._functions["project_gradient"](projection, output_gradient, input_gradient)

    def project_weight_gradient(
        self,
        projection: Projection,
        output_gradient: int,
        inputs: int,
        weight_gradient: int,
        bias_gradient: int | None,
    ) -> None:
        """Write the gradients of weight and bias, in float32."""
        self._functions["project_weight_gradient"](
            projection, output_gradient, inputs, weight_gradient, bias_gradient
        )


@cache
def load_operators() -> Operators | None:
    """The operators of the fastest library, or None if no library works; the log has the reason."""
    try:
        return Operators(load_library())
    except NativeError as reason:
        logger.info("training with PyTorch alone, not natively: %s", reason)
        return None
