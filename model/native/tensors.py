"""⑤ Where the numbers of a tensor lie, whoever holds it: NumPy, PyTorch or a mapped file. Imports neither."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, runtime_checkable

from model.errors import NativeError

FLOAT32, BFLOAT16, FLOAT16 = range(3)
"""NumberType in tensor.h."""

_ARRAY_TYPES = {"<f4": FLOAT32, "<f2": FLOAT16}
_TORCH_TYPES = {"torch.float32": FLOAT32, "torch.bfloat16": BFLOAT16, "torch.float16": FLOAT16}


@runtime_checkable
class Array(Protocol):
    """A NumPy array, or what tells of its memory like one."""

    @property
    def __array_interface__(self) -> Mapping[str, Any]:
        """See NumPy's array interface, version 3."""


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


@dataclass(frozen=True)
class BFloat16:
    """Numbers in bfloat16, which NumPy does not know: an array of their 16-bit words."""

    words: Array


@dataclass(frozen=True)
class Block:
    """A matrix or vector in memory, in row order.

    Attributes:
        address: Of its first number.
        type: FLOAT32, BFLOAT16 or FLOAT16.
        rows: 1 for a vector.
        columns: Numbers in a row.
    """

    address: int
    type: int
    rows: int
    columns: int

    @classmethod
    def of(cls, name: str, tensor: "Array | BFloat16 | TorchTensor") -> Self:
        """Where a tensor lies; it must live as long as the block is used.

        Raises:
            NativeError: If its type, its place or its layout is none that the library reads.
        """
        if isinstance(tensor, BFloat16):
            return cls._of_array(name, tensor.words, {"<u2": BFLOAT16})
        if isinstance(tensor, TorchTensor):
            return cls._of_torch(name, tensor)
        return cls._of_array(name, tensor, _ARRAY_TYPES)

    @classmethod
    def _of_array(cls, name: str, array: Array, types: Mapping[str, int]) -> Self:
        view = array.__array_interface__
        if view["typestr"] not in types or view.get("strides") is not None:
            raise NativeError(f"tensor {name!r} must be contiguous, in one of {', '.join(types)}")
        return cls(view["data"][0], types[view["typestr"]], *_rows_and_columns(name, view["shape"]))

    @classmethod
    def _of_torch(cls, name: str, tensor: TorchTensor) -> Self:
        kind = str(tensor.dtype)
        if kind not in _TORCH_TYPES or tensor.device.type != "cpu" or not tensor.is_contiguous():
            raise NativeError(
                f"tensor {name!r} must be contiguous, on the CPU, in one of {', '.join(_TORCH_TYPES)}"
            )
        return cls(tensor.data_ptr(), _TORCH_TYPES[kind], *_rows_and_columns(name, tensor.shape))


def _rows_and_columns(name: str, shape: Sequence[int]) -> tuple[int, int]:
    if len(shape) not in (1, 2):
        raise NativeError(f"tensor {name!r} must be a matrix or a vector, but has shape {list(shape)}")
    return (1, shape[0]) if len(shape) == 1 else (shape[0], shape[1])
