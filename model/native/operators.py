"""The operators of a training step in the native library, which read and write tensors by address.

src/training/operators.h has the same structs, and describes their fields.
"""

import logging
from collections.abc import Callable, Mapping
from ctypes import (
    POINTER,
    Array,
    Structure,
    c_double,
    c_float,
    c_int32,
    c_int64,
    c_uint32,
    c_uint64,
    c_void_p,
)
from functools import cache

from model.errors import NativeError
from model.native.binding import Library, Signature, fields, load_library

logger = logging.getLogger(__name__)


class LossRows(Structure):
    """Rows of logits and their labels."""

    _fields_ = fields(
        (c_void_p, "logits labels normalisers"),
        (c_int64, "row_stride rows vocabulary pad_id"),
        (c_double, "smoothing other_probability"),
        (c_int32, "is_bfloat16 threads"),
    )


class DropoutStruct(Structure):
    """Dropout with the mask of a seed."""

    _fields_ = fields((c_uint64, "seed"), (c_uint32, "threshold"), (c_float, "scale"))


class DropoutAdd(Structure):
    """A residual stream and the update that is added to it after dropout."""

    _fields_ = fields(
        (c_void_p, "stream update sum"),
        (c_int64, "size"),
        (DropoutStruct, "dropout"),
        (c_int32, "update_is_bfloat16 sum_is_bfloat16 threads"),
    )


class NormedRows(Structure):
    """Rows and their layer norm."""

    _fields_ = fields(
        (c_void_p, "rows_in gain shift normed means factors"),
        (c_int64, "rows width"),
        (c_float, "epsilon"),
        (c_int32, "normed_is_bfloat16 threads"),
    )


class NormGradients(Structure):
    """The gradients of a layer norm."""

    _fields_ = fields((c_void_p, "upstream rows gain shift"))


class SentenceAttention(Structure):
    """Queries, keys and values of whole sentences."""

    _fields_ = fields(
        (c_void_p, "queries keys values visible weights"),
        (c_int64, "query_stride key_stride sentences num_queries num_keys"),
        (c_int32, "heads width"),
        (c_float, "scale"),
        (c_int32, "is_causal"),
        (DropoutStruct, "dropout"),
        (c_int32, "is_bfloat16 threads"),
    )


class AttentionGradients(Structure):
    """The gradients of attention: of its output, and of queries, keys and values."""

    _fields_ = fields((c_void_p, "output queries keys values"))


class Projection(Structure):
    """A projection and the number of rows that it is applied to."""

    _fields_ = fields((c_void_p, "weight bias"), (c_int64, "rows inputs outputs"), (c_int32, "threads"))


_FUNCTIONS: Mapping[str, Signature] = {
    "lend_threads": (None, (c_void_p,)),
    "has_bfloat16_products": (c_int32, ()),
    "smoothed_loss": (c_int32, (POINTER(LossRows), POINTER(c_double))),
    "smoothed_loss_gradient": (c_int32, (POINTER(LossRows), c_float, c_void_p)),
    "dropout_add": (c_int32, (POINTER(DropoutAdd),)),
    "norm_rows": (c_int32, (POINTER(NormedRows),)),
    "norm_rows_gradient": (c_int32, (POINTER(NormedRows), POINTER(NormGradients))),
    "project": (c_int32, (POINTER(Projection), c_void_p, c_void_p)),
    "project_gradient": (c_int32, (POINTER(Projection), c_void_p, c_void_p)),
    "project_weight_gradient": (c_int32, (POINTER(Projection), c_void_p, c_void_p, c_void_p, c_void_p)),
    "attend_sentences": (c_int32, (POINTER(SentenceAttention), c_void_p)),
    "attend_sentences_gradient": (c_int32, (POINTER(SentenceAttention), POINTER(AttentionGradients))),
}


class Operators:
    """The training operators of one library. Calls release the interpreter's lock.

    Structures describe what is read, addresses say where results are written; numbers of `project` and of
    the gradient of its inputs are bfloat16. An operator raises MemoryError if the library cannot allocate
    memory.

    Args:
        library: The library.

    Attributes:
        lend_threads: Use the threads of a function like GOMP_parallel; None starts threads of the library's.
        has_bfloat16_products: Whether the library has `project` and its gradients.
        smoothed_loss: Write the normalisers, and the sums of smoothed loss and cross entropy.
        smoothed_loss_gradient: Write the gradient of a multiple of the smoothed loss.
        dropout_add: Write the sum.
        norm_rows: Write the norm, and the means and factors for its gradient.
        norm_rows_gradient: Write the gradients; `NormedRows.normed` is the gradient of the norm's result.
        attend_sentences: Write the joined heads, and the attention weights for the gradient.
        attend_sentences_gradient: Write the gradients of queries, keys and values.
        project: Write the outputs of inputs.
        project_gradient: Write the gradient of the inputs from that of the outputs.
        project_weight_gradient: Write the gradients of weight and bias, in float32, from that of the outputs
            and the inputs.
    """

    lend_threads: Callable[[int | None], None]
    has_bfloat16_products: Callable[[], int]
    smoothed_loss: Callable[[LossRows, "Array[c_double]"], int]
    smoothed_loss_gradient: Callable[[LossRows, float, int], int]
    dropout_add: Callable[[DropoutAdd], int]
    norm_rows: Callable[[NormedRows], int]
    norm_rows_gradient: Callable[[NormedRows, NormGradients], int]
    attend_sentences: Callable[[SentenceAttention, int], int]
    attend_sentences_gradient: Callable[[SentenceAttention, AttentionGradients], int]
    project: Callable[[Projection, int, int], int]
    project_gradient: Callable[[Projection, int, int], int]
    project_weight_gradient: Callable[[Projection, int, int, int, int | None], int]

    def __init__(self, library: Library) -> None:
        library.add_functions(self, _FUNCTIONS)


@cache
def load_operators() -> Operators | None:
    """The operators of the fastest library, or None if no library works; the log has the reason."""
    try:
        return Operators(load_library())
    except NativeError as reason:
        logger.info("training with PyTorch alone, not natively: %s", reason)
        return None
