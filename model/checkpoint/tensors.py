"""ⓕ Tensors as they lie in safetensors files: numbers of numpy, in memory. No torch.

The format is 8 bytes with the length of a JSON header, the header (type, shape and place of each
tensor), then the numbers, row by row: https://github.com/huggingface/safetensors#format.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypedDict, cast

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from model.errors import CheckpointError

if TYPE_CHECKING:
    from torch import Tensor

StorageType = Literal["float32", "bfloat16", "float16"]

_LENGTH_BYTES = 8
# numpy has no bfloat16: its bits are kept in integers of the same width.
_NUMPY_TYPES: dict[StorageType, type[np.generic]] = {
    "float32": np.float32,
    "bfloat16": np.uint16,
    "float16": np.float16,
}
_STORAGE_TYPES: dict[str, StorageType] = {"F32": "float32", "BF16": "bfloat16", "F16": "float16"}
_BFLOAT16_EXPONENT = 0x7F80


class _Entry(TypedDict):
    """What the header says of a tensor; places count from the header's end."""

    dtype: str
    shape: list[int]
    data_offsets: tuple[int, int]


@dataclass(frozen=True, eq=False)
class StoredTensor:
    """A tensor in the type it is stored in.

    Attributes:
        values: float32, float16, or uint16 that holds the bits of bfloat16.
        dtype: What the values are.
    """

    values: NDArray[np.generic]
    dtype: StorageType

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of its dimensions."""
        return self.values.shape

    @property
    def nbytes(self) -> int:
        """Bytes in the file."""
        return self.values.nbytes

    def is_finite(self) -> bool:
        """Whether it holds neither NaN nor infinity."""
        if self.dtype == "bfloat16":
            exponents = self.values.view(np.uint16) & _BFLOAT16_EXPONENT
            return not bool((exponents == _BFLOAT16_EXPONENT).any())
        return bool(np.isfinite(self.values).all())

    def torch(self) -> "Tensor":
        """The same numbers for PyTorch, in the same memory."""
        import torch

        tensor = torch.from_numpy(self.values)
        return tensor.view(torch.bfloat16) if self.dtype == "bfloat16" else tensor


def stored_tensors(path: Path) -> Iterator[tuple[str, StoredTensor]]:
    """Every tensor of a file, with its name.

    Raises:
        CheckpointError: If the file is no whole, sound safetensors file, or a tensor is not floating
            point.
    """
    try:
        # The header is untrusted until the library has found its places in order and within the file.
        with safe_open(path, framework="numpy"):
            pass
        header, numbers = _read(path)
    except (SafetensorError, OSError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise CheckpointError(f"{path} is not a readable safetensors file: {reason}") from error
    for name, entry in header.items():
        yield name, _tensor(entry, numbers, f"{path}: tensor {name!r}")


def _read(path: Path) -> tuple[dict[str, _Entry], memoryview]:
    # Not mapped: if somebody copied another file over this one now, a mapping would end the process.
    content = np.fromfile(path, np.uint8).data
    end = _LENGTH_BYTES + int.from_bytes(content[:_LENGTH_BYTES], "little")
    header = cast(dict[str, _Entry], json.loads(bytes(content[_LENGTH_BYTES:end])))
    header.pop("__metadata__", None)
    return header, content[end:]


def _tensor(entry: _Entry, numbers: memoryview, what: str) -> StoredTensor:
    dtype = _STORAGE_TYPES.get(entry["dtype"])
    if dtype is None:
        raise CheckpointError(f"{what} must be floating point, but is {entry['dtype']}")
    start, _ = entry["data_offsets"]
    return StoredTensor(np.ndarray(entry["shape"], _NUMPY_TYPES[dtype], numbers, start), dtype)
