"""⑤ The addresses of tensors of NumPy, PyTorch or a mapped file. Imports neither of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, runtime_checkable

from model.errors import NativeError

_TYPES = {"float32": 0, "bfloat16": 1, "float16": 2}  # NumberType in network/tensors.h
_WORDS = {"float32": "<f4", "bfloat16": "<u2", "float16": "<f2"}
_Place = tuple[int, str, Sequence[int]]
"""Address, number type and shape."""


class Array(Protocol):
    """A NumPy array, or another object with its array interface."""

    @property
    def __array_interface__(self) -> Mapping[str, Any]:
        """See NumPy's array interface, version 3."""


@runtime_checkable
class ArrayTensor(Protocol):
    """A tensor of a checkpoint, in the number type of its file."""

    @property
    def values(self) -> Array:
        """Its numbers. NumPy has no bfloat16, so that those numbers are 16-bit words."""

    @property
    def dtype(self) -> str:
        """`float32`, `bfloat16` or `float16`."""


class Device(Protocol):
    """The device of a PyTorch tensor."""

    @property
    def type(self) -> str:
        """`cpu`, or another type of device."""


@runtime_checkable
class TorchTensor(Protocol):
    """A PyTorch tensor."""

    @property
    def dtype(self) -> object:
        """Its number type."""

    @property
    def shape(self) -> Sequence[int]:
        """Its shape."""

    @property
    def device(self) -> Device:
        """Its device."""

    def is_contiguous(self) -> bool:
        """Whether its numbers are contiguous in row order."""

    def data_ptr(self) -> int:
        """The address of the first number."""


Weights = Mapping[str, ArrayTensor | TorchTensor]


@dataclass(frozen=True)
class Block:
    """A matrix or vector in memory, contiguous in row order.

    Attributes:
        address: Address of the first number.
        type: NumberType in network/tensors.h.
        rows: Number of rows; 1 for a vector.
        columns: Numbers in a row.
    """

    address: int
    type: int
    rows: int
    columns: int

    @classmethod
    def of(cls, name: str, tensor: ArrayTensor | TorchTensor, shape: Sequence[int]) -> Self:
        """The block of a tensor, which must stay alive while the block is used.

        Args:
            name: Its name in error messages.
            tensor: A vector or a matrix.
            shape: The expected shape.

        Raises:
            NativeError: If the tensor has another shape, or a number type, device or layout that the
                library cannot read.
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
