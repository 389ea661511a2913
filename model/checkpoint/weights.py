"""ⓕ Safetensors files as a network's tensors, checked by name, shape, type and finiteness. No torch.

A file has 8 bytes with the length of a JSON header, the header (type, shape and place of each tensor), and
the numbers, row by row: https://github.com/huggingface/safetensors#format.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypedDict, cast

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from model.checkpoint.manifest import FileRecord, read_json, require_listed
from model.config import TransformerConfig
from model.errors import CheckpointError
from model.network.parameters import Shape, parameter_shapes

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

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"


class _Entry(TypedDict):
    """The header's entry of a tensor; offsets count from the end of the header."""

    dtype: str
    shape: list[int]
    data_offsets: tuple[int, int]


@dataclass(frozen=True, eq=False)
class StoredTensor:
    """A tensor in the type it is stored in.

    Attributes:
        values: float32, float16, or uint16 with the bits of bfloat16.
        dtype: The type of the values.
    """

    values: NDArray[np.generic]
    dtype: StorageType

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the dimensions."""
        return self.values.shape

    @property
    def nbytes(self) -> int:
        """Size in the file, in bytes."""
        return self.values.nbytes

    def is_finite(self) -> bool:
        """Returns whether the tensor holds neither NaN nor infinity."""
        if self.dtype == "bfloat16":
            exponents = self.values.view(np.uint16) & _BFLOAT16_EXPONENT
            return not bool((exponents == _BFLOAT16_EXPONENT).any())
        return bool(np.isfinite(self.values).all())

    def torch(self) -> "Tensor":
        """Returns the tensor for PyTorch, without copying it."""
        import torch

        tensor = torch.from_numpy(self.values)
        return tensor.view(torch.bfloat16) if self.dtype == "bfloat16" else tensor


def stored_tensors(path: Path) -> Iterator[tuple[str, StoredTensor]]:
    """Yields every tensor of a file, with its name.

    Raises:
        CheckpointError: If the file is not a complete, sound safetensors file, or a tensor is not floating
        point.
    """
    try:
        # The header is untrusted until the library has checked that its offsets are within the file.
        with safe_open(path, framework="numpy"):
            pass
        header, numbers = _read(path)
    except (SafetensorError, OSError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise CheckpointError(f"{path} is not a readable safetensors file: {reason}") from error
    for name, entry in header.items():
        yield name, _tensor(entry, numbers, f"{path}: tensor {name!r}")


def _read(path: Path) -> tuple[dict[str, _Entry], memoryview]:
    # Not memory-mapped: if another file were copied over this one, a mapping would crash the process.
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


def read_weights(
    folder: Path, config: TransformerConfig, records: Mapping[str, FileRecord]
) -> dict[str, StoredTensor]:
    """Reads the weights.

    Args:
        folder: Checkpoint folder.
        config: Determines the tensors' names and shapes.
        records: The files that have been verified; no other file is opened.

    Raises:
        CheckpointError: With file and name, if the tensors are not exactly those of the network, or hold NaN
        or
            infinity.
    """
    file_names = _weight_files(folder, records)
    require_listed(folder, file_names, records)
    weights: dict[str, StoredTensor] = {}
    for file_name in file_names:
        for name, tensor in stored_tensors(folder / file_name):
            if name in weights:
                raise CheckpointError(f"{folder / file_name}: tensor {name!r} is there twice")
            weights[name] = tensor
    check_shapes(config, {name: tensor.shape for name, tensor in weights.items()}, str(folder))
    for name, tensor in weights.items():
        if not tensor.is_finite():
            raise CheckpointError(f"{folder}: tensor {name!r} holds NaN or infinity")
    return weights


def check_shapes(config: TransformerConfig, shapes: Mapping[str, Shape], where: str) -> None:
    """Requires exactly the network's parameters, tied ones once.

    Raises:
        CheckpointError: With the name of the first tensor that is missing, unknown or of another shape.
    """
    expected = parameter_shapes(config)
    for name, shape in expected.items():
        if name not in shapes:
            raise CheckpointError(f"{where}: tensor {name!r} is missing")
        if shapes[name] != shape:
            shapes_differ = f"must have shape {list(shape)}, but has {list(shapes[name])} instead"
            raise CheckpointError(f"{where}: tensor {name!r} {shapes_differ}")
    for name in shapes.keys() - expected.keys():
        raise CheckpointError(f"{where}: tensor {name!r} is not part of this architecture")


def _weight_files(folder: Path, records: Mapping[str, FileRecord]) -> Sequence[str]:
    if INDEX not in records:
        return [WEIGHTS]
    weight_map = read_json(folder / INDEX).get("weight_map")
    names = weight_map.values() if isinstance(weight_map, dict) else [None]
    if not all(isinstance(name, str) for name in names):
        raise CheckpointError(f"{folder / INDEX} must map each tensor to a file")
    return sorted(set(names))
