"""⑤ Where the numbers of a tensor lie, whoever holds it: NumPy, PyTorch or a mapped file. Imports neither."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, runtime_checkable

from model.errors import NativeError

_TYPES = {"float32": 0, "bfloat16": 1, "float16": 2}  # NumberType in tensors.h
_WORDS = {"float32": "<f4", "bfloat16": "<u2", "float16": "<f2"}
_Place = tuple[int, str, Sequence[int]]
"""Address, type and shape."""


class Array(Protocol):
    """A NumPy array, or what tells of its memory like one."""

    @property
    def __array_interface__(self) -> Mapping[str, Any]:
        """See NumPy's array interface, version 3."""


@runtime_checkable
class ArrayTensor(Protocol):
    """A tensor of a checkpoint, as its file has it."""

    @property
    def values(self) -> Array:
        """Its numbers; those of bfloat16, which NumPy does not know, as 16-bit words."""

    @property
    def dtype(self) -> str:
        """`float32`, `bfloat16` or `float16`."""


class Device(Protocol):
    """Where a PyTorch tensor lives."""

    @property
    def type(self) -> str:
        """`cpu`, or another kind."""


@runtime_checkable
class TorchTensor(Protocol):
    """A PyTorch tensor."""

    @property
    def dtype(self) -> object:
        """Type of its numbers."""

    @property
    def shape(self) -> Sequence[int]:
        """Its sizes."""

    @property
    def device(self) -> Device:
        """Where it lives."""

    def is_contiguous(self) -> bool:
        """Whether its numbers lie in row order."""

    def data_ptr(self) -> int:
        """Where they begin."""


Weights = Mapping[str, ArrayTensor] | Mapping[str, TorchTensor]


@dataclass(frozen=True)
class Block:
    """A matrix or vector in memory, in row order.

    Attributes:
        address: Of its first number.
        type: NumberType in tensors.h.
        rows: 1 for a vector.
        columns: Numbers in a row.
    """

    address: int
    type: int
    rows: int
    columns: int

    @classmethod
    def of(cls, name: str, tensor: ArrayTensor | TorchTensor, shape: Sequence[int]) -> Self:
        """Where a tensor lies; it must live as long as the block is used.

        Args:
            name: What messages call it.
            tensor: A vector or a matrix.
            shape: What it must have.

        Raises:
            NativeError: If it has another shape, or a type, a place or a layout that the library does
                not read.
        """
        found = _of_torch(tensor) if isinstance(tensor, TorchTensor) else _of_array(tensor)
        if found is None:
            raise NativeError(
                f"tensor {name!r} must be contiguous, on the CPU, in one of {', '.join(_TYPES)}"
            )
        address, kind, sizes = found
        if tuple(sizes) != tuple(shape) or len(shape) not in (1, 2):
            raise NativeError(f"tensor {name!r} must have shape {list(shape)}, but has {list(sizes)} instead")
        return cls(address, _TYPES[kind], *((1, *shape) if len(shape) == 1 else shape))


def _of_torch(tensor: TorchTensor) -> _Place | None:
    kind = str(tensor.dtype).removeprefix("torch.")
    readable = kind in _TYPES and tensor.device.type == "cpu" and tensor.is_contiguous()
    return (tensor.data_ptr(), kind, tensor.shape) if readable else None


def _of_array(tensor: ArrayTensor) -> _Place | None:
    view = tensor.values.__array_interface__
    readable = view["typestr"] == _WORDS.get(tensor.dtype) and view.get("strides") is None
    return (view["data"][0], tensor.dtype, view["shape"]) if readable else None
