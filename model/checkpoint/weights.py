"""ⓕ Safetensors files as a network's tensors, checked by name, shape, type and finiteness. No torch.

A file has 8 bytes with the length of a JSON header, the header (type, shape and place of each tensor), and
the numbers, row by row: https://github.com/huggingface/safetensors#format.

A matrix NAME may be stored as int8, with a float32 vector NAME_scale: a value is its integer times the scale
of its row.
"""

import hashlib
import json
import os
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypedDict, cast

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from model.checkpoint.manifest import FileRecord, read_json, require_file, require_listed, verify_file
from model.config import TransformerConfig
from model.errors import CheckpointError
from model.network.parameters import Shape, parameter_shapes

if TYPE_CHECKING:
    from torch import Tensor

StorageType = Literal["float32", "bfloat16", "float16", "int8"]

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
SCALE = "_scale"
"""Ends the name of the scales of an int8 matrix."""
NUMPY_TYPES: Mapping[StorageType, type[np.generic]] = {
    "float32": np.float32,
    "bfloat16": np.uint16,  # numpy has no bfloat16: its bits are kept in integers of the same width
    "float16": np.float16,
    "int8": np.int8,
}
FILE_TYPES: Mapping[StorageType, str] = {
    "float32": "F32",
    "bfloat16": "BF16",
    "float16": "F16",
    "int8": "I8",
}

_STORAGE_TYPES = {file_type: dtype for dtype, file_type in FILE_TYPES.items()}
_BFLOAT16_EXPONENT = 0x7F80
_LARGEST_INT8 = 127
# Keeps the scale of a row of zeros above 0, so that it can be a divisor.
_SMALLEST_MAGNITUDE = np.float32(1e-12)
_LENGTH_BYTES = 8
_BLOCK_BYTES = 2**20


@dataclass(frozen=True, eq=False)
class StoredTensor:
    """A tensor in the type it is stored in.

    Attributes:
        values: float32, float16, uint16 with the bits of bfloat16, or int8.
        dtype: The type of the values.
        scale: For int8, the float32 factor of each row; None otherwise.
    """

    values: NDArray[np.generic]
    dtype: StorageType
    scale: NDArray[np.float32] | None = None

    @classmethod
    def rounded(cls, floats: NDArray[np.float32], dtype: StorageType) -> "StoredTensor":
        """Returns float32 numbers rounded to a type; see `converted`."""
        return cls(np.ascontiguousarray(floats, np.float32), "float32").converted(dtype)

    def converted(self, dtype: StorageType) -> "StoredTensor":
        """Returns the numbers rounded to a type, or this tensor if that is its type.

        In int8, for which it must be a matrix, the largest magnitude of a row becomes 127, as in products of
        int8 precision.
        """
        if dtype == self.dtype:
            return self
        rounded = np.empty(self.shape, NUMPY_TYPES[dtype])
        scale = np.empty(self.shape[0], np.float32) if dtype == "int8" else None
        with np.errstate(over="ignore", invalid="ignore"):  # `is_finite` reports what cannot be held
            for rows in row_blocks(self.shape):
                block = self._rows(rows).floats()
                if scale is not None:
                    most = np.maximum(np.abs(block).max(-1, initial=0), _SMALLEST_MAGNITUDE)
                    scale[rows] = most / np.float32(_LARGEST_INT8)
                    rounded[rows] = np.rint(block / scale[rows, None])
                elif dtype == "bfloat16":
                    bits = block.view(np.uint32)
                    nearest = (bits + (bits >> 16 & 1) + 0x7FFF) >> 16  # ties to even
                    rounded[rows] = np.where(np.isnan(block), _BFLOAT16_EXPONENT + 1, nearest)
                else:
                    rounded[rows] = block
        return StoredTensor(rounded, dtype, scale)

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the dimensions."""
        return self.values.shape

    @property
    def nbytes(self) -> int:
        """Size in the file, in bytes."""
        return self.values.nbytes + (0 if self.scale is None else self.scale.nbytes)

    def is_finite(self) -> bool:
        """Returns whether the tensor holds neither NaN nor infinity."""
        if self.dtype == "int8":
            return self.scale is None or bool(np.isfinite(self.scale).all())
        values = np.atleast_1d(self.values)
        return all(_are_finite(values[rows], self.dtype) for rows in row_blocks(values.shape))

    def floats(self) -> NDArray[np.float32]:
        """Returns the values in float32, without copying them if that is their type."""
        if self.scale is not None:
            return cast(NDArray[np.float32], np.multiply(self.values, self.scale[:, None], dtype=np.float32))
        if self.dtype == "bfloat16":
            bits = self.values.astype(np.uint32)
            bits <<= 16
            return cast(NDArray[np.float32], bits.view(np.float32))
        return cast(NDArray[np.float32], self.values.astype(np.float32, copy=False))

    def _rows(self, rows: slice) -> "StoredTensor":
        return StoredTensor(self.values[rows], self.dtype, None if self.scale is None else self.scale[rows])

    def torch(self) -> "Tensor":
        """Returns the tensor for PyTorch, without copying it; int8 as float32."""
        import torch

        tensor = torch.from_numpy(self.floats() if self.dtype == "int8" else self.values)
        return tensor.view(torch.bfloat16) if self.dtype == "bfloat16" else tensor


def _are_finite(values: NDArray[np.generic], dtype: StorageType) -> bool:
    if dtype != "bfloat16":
        return bool(np.isfinite(values).all())
    exponents = values.view(np.uint16) & _BFLOAT16_EXPONENT
    return not bool((exponents == _BFLOAT16_EXPONENT).any())


def row_blocks(shape: Shape) -> Iterator[slice]:
    """Yields slices of a few rows each, so that intermediate results stay small."""
    count = max(1, _BLOCK_BYTES // max(1, 4 * int(np.prod(shape[1:]))))
    return (slice(first, first + count) for first in range(0, shape[0], count))


class HeaderEntry(TypedDict):
    """The header's entry of a tensor; offsets count from the end of the header."""

    dtype: str
    shape: list[int]
    data_offsets: tuple[int, int]


class OpenFile:
    """An open file; the descriptor is closed with the last reference."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        weakref.finalize(self, os.close, self._descriptor)

    def size(self) -> int:
        """Returns the size in bytes."""
        return os.fstat(self._descriptor).st_size

    def read_into(self, numbers: NDArray[np.generic], offset: int) -> None:
        """Fills an array. Not memory-mapped: if the file were truncated, a mapping would crash the process.

        Raises:
            CheckpointError: If the file ends before that.
        """
        left = numbers.reshape(-1).view(np.uint8).data
        while left:
            count = os.preadv(self._descriptor, [left], offset)
            if not count:
                raise _changed(self.path)
            left, offset = left[count:], offset + count


@dataclass(frozen=True)
class _Place:
    """The place of a tensor in a file, and the file's SHA-256 up to its beginning and up to its end."""

    file: OpenFile
    dtype: StorageType
    shape: Shape
    offset: int
    end: int
    before: "hashlib._Hash"
    after: bytes

    def read(self) -> NDArray[np.generic]:
        """Reads all numbers; raises CheckpointError if the file has been changed since it was verified."""
        (values,) = self.blocks([self.shape])
        return values

    def blocks(self, shapes: Iterable[Shape]) -> Iterator[NDArray[np.generic]]:
        """Yields the numbers in consecutive arrays; raises as `read`, before the last of them."""
        digest, offset = self.before.copy(), self.offset
        for shape in shapes:
            values = np.empty(shape, NUMPY_TYPES[self.dtype])
            self.file.read_into(values, offset)
            digest.update(values.reshape(-1).view(np.uint8).data)
            offset += values.nbytes
            if offset == self.end and digest.digest() != self.after:
                raise _changed(self.file.path)
            yield values
            del values  # before the next one is read


class StoredTensors(Mapping[str, StoredTensor]):
    """The tensors of open, verified files; each is read again whenever it is asked for.

    Reading raises CheckpointError if a file has been changed in place since it was verified. Replacing or
    deleting a file changes nothing.
    """

    def __init__(self, places: Mapping[str, _Place]) -> None:
        self._places = places
        self._names = {name: None for name in places if not self._is_scale(name)}

    def __getitem__(self, name: str) -> StoredTensor:
        place = self._places[name]
        return StoredTensor(place.read(), place.dtype, self._scale(name))

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._names  # Mapping's would read the tensor

    def row_blocks(self, name: str, count: int) -> Iterator[StoredTensor]:
        """Reads a matrix `count` rows at a time, from the first to the last.

        Raises:
            CheckpointError: Before the last block, if the file has been changed in place.
        """
        place = self._places[name]
        rows, *others = place.shape
        scale = self._scale(name)
        blocks = place.blocks((min(count, rows - first), *others) for first in range(0, rows, count))
        for first in range(0, rows, count):  # keeps no block alive
            part = None if scale is None else scale[first : first + count]
            yield StoredTensor(next(blocks), place.dtype, part)

    @property
    def dtypes(self) -> Mapping[str, StorageType]:
        """The type of each tensor, without reading it."""
        return {name: self._places[name].dtype for name in self._names}

    @property
    def shapes(self) -> Mapping[str, Shape]:
        """The shape of each tensor, without reading it."""
        return {name: self._places[name].shape for name in self._names}

    @property
    def nbytes(self) -> int:
        """Size of all tensors in the files, in bytes."""
        return sum(
            int(np.prod(place.shape)) * np.dtype(NUMPY_TYPES[place.dtype]).itemsize
            for place in self._places.values()
        )

    def _scale(self, name: str) -> NDArray[np.float32] | None:
        is_int8 = self._places[name].dtype == "int8"
        return cast(NDArray[np.float32], self._places[name + SCALE].read()) if is_int8 else None

    def _is_scale(self, name: str) -> bool:
        matrix = self._places.get(name.removesuffix(SCALE)) if name.endswith(SCALE) else None
        return matrix is not None and matrix.dtype == "int8"


def open_tensors(path: Path, expected: FileRecord | None = None) -> StoredTensors:
    """Opens a file and verifies it, reading it once from begin to end.

    Args:
        path: A safetensors file.
        expected: What its size and checksum must be.

    Raises:
        CheckpointError: If the file is not a complete, sound safetensors file or not the one expected, or a
            tensor holds NaN or infinity, is neither floating point nor int8, or is int8 without its scales.
    """
    places = _verified_places(path, expected)
    for name, place in places.items():
        scale = places.get(name + SCALE)
        what = f"{path}: tensor {name!r}"
        if place.dtype != "int8":
            continue
        if scale is None or scale.dtype != "float32":
            raise CheckpointError(f"{what} must be floating point, or int8 with a float32 {name + SCALE!r}")
        if len(place.shape) != 2 or scale.shape != place.shape[:1]:
            shapes = f"{list(place.shape)} and {list(scale.shape)}"
            raise CheckpointError(f"{what} must be a matrix with a scale for each row, but they are {shapes}")
    return StoredTensors(places)


def _verified_places(path: Path, expected: FileRecord | None) -> dict[str, _Place]:
    require_file(path)
    try:
        file = OpenFile(path)
        header, header_bytes = read_header(file)
        header.pop("__metadata__", None)
        entries = sorted(header.items(), key=lambda item: item[1]["data_offsets"])
    except (SafetensorError, OSError, ValueError) as error:
        if expected is not None:
            verify_file(path, expected)
        raise CheckpointError(f"{path} is not a readable safetensors file: {error}") from error
    digest, places, problem = hashlib.sha256(header_bytes), dict[str, _Place](), ""
    for name, entry in entries:
        begin, end = entry["data_offsets"]
        dtype = _STORAGE_TYPES.get(entry["dtype"])
        before, offset = digest.copy(), len(header_bytes) + begin
        if not _digest_numbers(file, digest, offset, end - begin, dtype or "int8") and not problem:
            problem = f"tensor {name!r} holds NaN or infinity"
        if dtype is None:
            problem = problem or f"tensor {name!r} must be floating point, but is {entry['dtype']}"
        else:
            places[name] = _Place(
                file, dtype, tuple(entry["shape"]), offset, len(header_bytes) + end, before, digest.digest()
            )
    if expected is not None:
        verify_file(path, expected, FileRecord(digest.hexdigest(), file.size()))
    if problem:
        raise CheckpointError(f"{path}: {problem}")
    return {name: places[name] for name in header}


def read_header(file: OpenFile) -> tuple[dict[str, HeaderEntry], bytes]:
    """Returns the entries of a safetensors file by name, and the bytes before the first number.

    Raises:
        SafetensorError: If the header is malformed, or tells of numbers beyond the end of the file.
    """
    # The header is untrusted until the library has checked that its offsets are within the file.
    with safe_open(file.path, framework="numpy"):
        pass
    length = np.empty(1, "<u8")
    file.read_into(length, 0)
    content = np.empty(_LENGTH_BYTES + int(length[0]), np.uint8)
    file.read_into(content, 0)
    header = cast(dict[str, HeaderEntry], json.loads(content[_LENGTH_BYTES:].tobytes()))
    return header, content.tobytes()


def _digest_numbers(
    file: OpenFile, digest: "hashlib._Hash", offset: int, size: int, dtype: StorageType
) -> bool:
    """Adds a tensor's bytes to a digest; returns whether its numbers are finite."""
    block, is_finite = np.empty(_BLOCK_BYTES, np.uint8), True
    for done in range(0, size, _BLOCK_BYTES):
        part = block[: min(_BLOCK_BYTES, size - done)]
        file.read_into(part, offset + done)
        digest.update(part.data)
        is_finite = is_finite and StoredTensor(part.view(NUMPY_TYPES[dtype]), dtype).is_finite()
    return is_finite


def _changed(path: Path) -> CheckpointError:
    return CheckpointError(f"{path} was changed after it had been verified")


def read_weights(folder: Path, config: TransformerConfig, records: Mapping[str, FileRecord]) -> StoredTensors:
    """Verifies the weights, and opens them for reading.

    Args:
        folder: Checkpoint folder.
        config: Determines the tensors' names and shapes.
        records: What the files must be; no other file is opened.

    Raises:
        CheckpointError: With file and name, if the tensors are not exactly those of the network, or hold NaN
            or infinity.
    """
    places: dict[str, _Place] = {}
    for file_name in weight_files(folder, records):
        for name, place in open_tensors(folder / file_name, records[file_name])._places.items():
            if name in places:
                raise CheckpointError(f"{folder / file_name}: tensor {name!r} is there twice")
            places[name] = place
    weights = StoredTensors(places)
    check_shapes(config, weights.shapes, str(folder))
    return weights


def check_shapes(config: TransformerConfig, shapes: Mapping[str, Shape | None], where: str) -> None:
    """Requires exactly the network's parameters, tied ones once.

    Args:
        config: Determines names and shapes.
        shapes: The shapes found; None if a shape is not known yet.
        where: Begins the message.

    Raises:
        CheckpointError: With the name of the first tensor that is missing, unknown or of another shape.
    """
    expected = parameter_shapes(config)
    for name, shape in expected.items():
        if name not in shapes:
            raise CheckpointError(f"{where}: tensor {name!r} is missing")
        found = shapes[name]
        if found is not None and found != shape:
            shapes_differ = f"must have shape {list(shape)}, but has {list(found)} instead"
            raise CheckpointError(f"{where}: tensor {name!r} {shapes_differ}")
    for name in shapes.keys() - expected.keys():
        raise CheckpointError(f"{where}: tensor {name!r} is not part of this architecture")


def weight_files(folder: Path, records: Mapping[str, FileRecord]) -> Sequence[str]:
    """Returns the names of the files with weights, all of them listed.

    Raises:
        CheckpointError: If the index is broken, or names a file that is missing or not listed.
    """
    names = [WEIGHTS]
    if INDEX in records:
        verify_file(folder / INDEX, records[INDEX])
        weight_map = read_json(folder / INDEX).get("weight_map")
        found: set[object] = set(weight_map.values()) if isinstance(weight_map, dict) else {None}
        if not all(isinstance(name, str) for name in found):
            raise CheckpointError(f"{folder / INDEX} must map each tensor to a file")
        names = sorted(map(str, found))
    require_listed(folder, names, records)
    return names
