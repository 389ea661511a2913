"""The addresses of tensors in NumPy's memory, read one at a time. Does not import NumPy."""

import ctypes
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from model.errors import NativeError
from model.native.binding import ReadTensor, TensorRows

if TYPE_CHECKING:
    from numpy.typing import NDArray

_TYPES = {"float32": 0, "bfloat16": 1, "float16": 2, "int8": 3}  # NumberType in network/tensors.h
_WORDS = {"float32": "<f4", "bfloat16": "<u2", "float16": "<f2", "int8": "|i1"}


class ArrayTensor(Protocol):
    """A tensor of a checkpoint, in the number type of its file; int8 has a `scale` for each row."""

    @property
    def values(self) -> "NDArray[Any]":
        """Its numbers. NumPy has no bfloat16, so that those numbers are 16-bit words."""

    @property
    def dtype(self) -> str:
        """`float32`, `bfloat16`, `float16` or `int8`."""


Weights = Mapping[str, ArrayTensor]


@runtime_checkable
class RowBlocks(Protocol):
    """Weights that can be read without holding a whole matrix in memory."""

    def row_blocks(self, name: str, count: int) -> Iterator[ArrayTensor]:
        """Reads a matrix `count` rows at a time, from the first to the last."""


class TensorReader:
    """Reads tensors for the library, and keeps only the last one alive, or the last rows of a matrix.

    Args:
        weights: Tensors by name.
        shapes: The expected shapes; no other tensor is read.

    Attributes:
        callback: The function that the library calls. It must ask for the rows of a matrix in order.
        error: The exception of the last call that failed.
    """

    def __init__(self, weights: Weights, shapes: Mapping[str, Sequence[int]]) -> None:
        self._weights, self._shapes = weights, shapes
        self._name = ""
        self._tensor: ArrayTensor | None = None
        self._blocks: Iterator[ArrayTensor] = iter(())
        self.error: BaseException | None = None
        self.callback = ReadTensor(self._read)

    def _read(self, name: bytes, first: int, count: int, rows: "ctypes._Pointer[TensorRows]") -> int:
        wanted = name.decode()
        if wanted not in self._shapes:
            return 0
        try:
            rows[0] = self._rows(wanted, first, count) if count else _shape(self._shapes[wanted])
        except BaseException as error:
            self.error = error
            return -1
        return 1

    def _rows(self, name: str, first: int, count: int) -> TensorRows:
        shape = self._shapes[name]
        if name not in self._weights:
            raise NativeError(f"tensor {name!r} is missing")
        if isinstance(self._weights, RowBlocks) and len(shape) == 2:
            if first == 0:
                self._blocks = self._weights.row_blocks(name, count)
            self._name, self._tensor = "", None  # frees the rows before the next ones are read
            self._tensor = next(self._blocks)
            rows = _rows_of(name, self._tensor, (min(count, shape[0] - first), shape[1]))
            rows.rows = shape[0]
            return rows
        if name != self._name or self._tensor is None:
            self._tensor = None
            self._name, self._tensor = name, self._weights[name]
        return _rows_of(name, self._tensor, shape, first)


def _shape(shape: Sequence[int]) -> TensorRows:
    return TensorRows(rows=math.prod(shape[:-1]), columns=shape[-1])


def _rows_of(name: str, tensor: ArrayTensor, shape: Sequence[int], first: int = 0) -> TensorRows:
    """The rows of a vector or matrix from `first` on, for the library, while the tensor lives.

    Raises:
        NativeError: If it has another shape, or a number type or layout that the library cannot read.
    """
    view = tensor.values.__array_interface__
    if view["typestr"] != _WORDS.get(tensor.dtype) or view.get("strides") is not None:
        raise NativeError(f"tensor {name!r} must be contiguous, in one of {', '.join(_TYPES)}")
    found = view["shape"]
    if found != tuple(shape) or len(shape) not in (1, 2):
        raise NativeError(f"tensor {name!r} must have shape {list(shape)}, but has {list(found)} instead")
    rows, columns = (1, *shape) if len(shape) == 1 else shape
    data = view["data"][0] + first * columns * tensor.values.itemsize
    return TensorRows(data, _scales(name, tensor, shape, first), _TYPES[tensor.dtype], rows, columns)


def _scales(name: str, tensor: ArrayTensor, shape: Sequence[int], first: int) -> int | None:
    if tensor.dtype != "int8":
        return None
    view: Mapping[str, Any] = getattr(getattr(tensor, "scale", None), "__array_interface__", {})
    if view.get("typestr") != "<f4" or view.get("strides") or tuple(view["shape"]) != tuple(shape[:-1]):
        raise NativeError(f"tensor {name!r} must have a float32 scale for each row")
    return int(view["data"][0]) + 4 * first
