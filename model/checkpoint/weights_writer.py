"""ⓕ Writes a network's tensors to safetensors files, one tensor after the other."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np

from model.checkpoint.manifest import write_json
from model.checkpoint.weights import (
    FILE_TYPES,
    INDEX,
    NUMPY_TYPES,
    SCALE,
    WEIGHTS,
    StorageType,
    StoredTensor,
    check_shapes,
    row_blocks,
)
from model.config import TransformerConfig
from model.errors import CheckpointError
from model.network.parameters import Shape, parameter_names, parameter_shapes

if TYPE_CHECKING:
    from torch import Tensor

Read = Callable[[], StoredTensor]
"""Reads or makes one tensor when called, so that memory holds one at a time."""


@dataclass(frozen=True)
class RowReading:
    """A `Read` that can also read a few rows, so that memory need not hold a large tensor in two types.

    Attributes:
        shape: Lengths of the tensor's dimensions.
        rows: Reads consecutive rows.
    """

    shape: Shape
    rows: Callable[[slice], StoredTensor]

    def __call__(self) -> StoredTensor:
        """Reads all rows."""
        return self.rows(slice(None))


MAX_FILE_BYTES = 15_000_000

# safetensors needs less than this in its header for a tensor.
_HEADER_BYTES_PER_TENSOR = 200
_KEPT_AS_FLOATS = ("positions.weight", "relative_bias.weight")


def storable(config: TransformerConfig, weights: "Mapping[str, Tensor | Read]") -> dict[str, Read]:
    """Returns how to read a network's tensors for `write_weights`.

    Args:
        config: Shape of the network.
        weights: The network's `state_dict()`, or functions that read its tensors; tied names may be missing.

    Raises:
        CheckpointError: If a tensor is unknown.
    """
    names = parameter_names(config)
    for name in weights.keys() - names.keys():
        raise CheckpointError(f"tensor {name!r} is not part of this architecture")
    return {
        name: tensor if callable(tensor := weights[name]) else partial(stored, name, tensor)
        for name, first in names.items()
        if name == first and name in weights
    }


def stored(name: str, tensor: "Tensor") -> StoredTensor:
    """Returns a tensor as it is stored; it is not copied if it is contiguous and on the CPU.

    Raises:
        CheckpointError: If its numbers are of a type that is not stored.
    """
    import torch

    dtype = str(tensor.dtype).removeprefix("torch.")
    if dtype not in NUMPY_TYPES or not tensor.is_floating_point():
        raise CheckpointError(f"the weights: tensor {name!r} must be floating point, but is {tensor.dtype}")
    ready = tensor.detach().cpu().contiguous()
    values = ready.view(torch.uint16) if ready.dtype == torch.bfloat16 else ready
    return StoredTensor(values.numpy(), cast(StorageType, dtype))


def write_weights(
    folder: Path,
    config: TransformerConfig,
    tensors: Mapping[str, Read],
    storage: StorageType | None = None,
    *,
    max_file_bytes: int = MAX_FILE_BYTES,
) -> None:
    """Writes one file, or several of at most `max_file_bytes` and their index.

    A single tensor larger than that has its own file. Memory holds one file, or one larger tensor, at a
    time, in the type that it is stored in if it is read by rows.

    Args:
        folder: Folder to write into; incomplete after an error.
        config: Determines the tensors' names and shapes.
        tensors: Reads each parameter, tied ones once; called once each, in the order of the network.
        storage: Type to store in; None keeps the type of each tensor. With int8, vectors and tables of
            positions are stored in float32.
        max_file_bytes: Limit of a file.

    Raises:
        CheckpointError: If a tensor is missing, unknown, of another shape or type, or not finite.
    """
    check_shapes(config, dict.fromkeys(tensors), "the weights")
    files = _Files(folder, max_file_bytes)
    for name, shape in parameter_shapes(config).items():
        files.add(name, _read(name, shape, tensors[name], storage))
    files.finish()


def _read(name: str, shape: Shape, read: Read, storage: StorageType | None) -> StoredTensor:
    if not isinstance(read, RowReading) or read.shape != shape:
        return _checked(name, shape, read(), storage)
    whole: StoredTensor | None = None
    for rows in row_blocks(shape):
        block = read.rows(rows)
        part = _checked(name, (len(block.values), *shape[1:]), block, storage)
        if whole is None:
            scale = None if part.scale is None else np.empty(shape[0], np.float32)
            whole = StoredTensor(np.empty(shape, part.values.dtype), part.dtype, scale)
        whole.values[rows] = part.values
        if whole.scale is not None:
            whole.scale[rows] = part.scale
    return whole or read()


def _checked(name: str, shape: Shape, tensor: StoredTensor, storage: StorageType | None) -> StoredTensor:
    what = f"the weights: tensor {name!r}"
    if tensor.values.dtype != NUMPY_TYPES[tensor.dtype]:
        raise CheckpointError(f"{what} must be {tensor.dtype}, but is {tensor.values.dtype}")
    if tensor.shape != shape:
        raise CheckpointError(f"{what} must have shape {list(shape)}, but has {list(tensor.shape)} instead")
    has_scales = tensor.scale is not None and tensor.scale.shape == shape[:1] and len(shape) == 2
    if has_scales != (tensor.dtype == "int8"):
        raise CheckpointError(f"{what} must have a scale for each row if and only if it is an int8 matrix")
    wanted = storage or tensor.dtype
    if wanted == "int8" and (len(shape) != 2 or name.endswith(_KEPT_AS_FLOATS)):
        wanted = "float32"
    converted = tensor.converted(wanted)
    if not converted.is_finite():
        fault = f"numbers too large for {wanted}" if tensor.is_finite() else "NaN or infinity"
        raise CheckpointError(f"{what} holds {fault}")
    return converted


class _Files:
    """Safetensors files of at most `max_bytes` each, or with one larger tensor."""

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self._folder, self._max_bytes = folder, max_bytes
        self._waiting: dict[str, StoredTensor] = {}
        self._used = self._total = 0
        self._written: list[list[str]] = []

    def add(self, name: str, tensor: StoredTensor) -> None:
        parts = {name: tensor}
        if tensor.scale is not None:
            parts = {name: replace(tensor, scale=None), name + SCALE: StoredTensor(tensor.scale, "float32")}
        size = tensor.nbytes + len(parts) * _HEADER_BYTES_PER_TENSOR
        if self._waiting and self._used + size > self._max_bytes:
            self._write()
        self._waiting |= parts
        self._used += size
        self._total += tensor.nbytes
        if self._used > self._max_bytes:
            self._write()

    def finish(self) -> None:
        """Writes what is left, gives the files their names, and writes the index of several."""
        if self._waiting:
            self._write()
        count = len(self._written)
        if count == 1:
            self._path(1).rename(self._folder / WEIGHTS)
            return
        weight_map: dict[str, str] = {}
        for number, names in enumerate(self._written, start=1):
            file_name = f"model-{number:05}-of-{count:05}.safetensors"
            self._path(number).rename(self._folder / file_name)
            weight_map |= dict.fromkeys(names, file_name)
        write_json(self._folder / INDEX, {"metadata": {"total_size": self._total}, "weight_map": weight_map})

    def _path(self, number: int) -> Path:
        return self._folder / f"model-{number:05}.safetensors"

    def _write(self) -> None:
        self._written.append(list(self._waiting))
        _write_file(self._path(len(self._written)), self._waiting)
        self._waiting, self._used = {}, 0


def _write_file(path: Path, tensors: Mapping[str, StoredTensor]) -> None:
    """Writes a file as the safetensors package does: wide types first, so that all numbers are aligned.

    The package's own function gives others no right to read the file.
    """
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    in_order = sorted(tensors.items(), key=lambda item: (-item[1].values.itemsize, item[0]))
    end = 0
    for name, tensor in in_order:
        begin, end = end, end + tensor.nbytes
        header[name] = {
            "dtype": FILE_TYPES[tensor.dtype],
            "shape": tensor.shape,
            "data_offsets": (begin, end),
        }
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _, tensor in in_order:
            file.write(np.ascontiguousarray(tensor.values).reshape(-1).view(np.uint8).data)
