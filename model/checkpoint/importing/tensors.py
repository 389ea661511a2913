"""The tensors of a foreign model's files, read a few rows at a time. No torch."""

import math
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from model.checkpoint.importing.reader import refusal
from model.checkpoint.manifest import read_errors
from model.checkpoint.weights import StorageType, StoredTensor, row_blocks
from model.checkpoint.weights_writer import Read, RowReading
from model.errors import CheckpointError

# numpy has no bfloat16, whose bits are kept in integers.
TYPES: Mapping[str, np.dtype[Any]] = {
    "float32": np.dtype("<f4"),
    "int8": np.dtype("<i1"),
    "int16": np.dtype("<i2"),
    "int32": np.dtype("<i4"),
    "float16": np.dtype("<f2"),
    "bfloat16": np.dtype("<u2"),
}
_FLOATS = ("float32", "float16", "bfloat16")


@dataclass(frozen=True)
class ForeignTensor:
    """The place of a tensor in a file.

    Attributes:
        path: The file.
        offset: Position of the first byte.
        shape: Lengths of the dimensions; empty for a single number.
        dtype: Name of the type: one of TYPES, or another of numpy.
        owner: Keeps a temporary file alive.
    """

    path: Path
    offset: int
    shape: tuple[int, ...]
    dtype: str
    owner: object = field(default=None, compare=False, repr=False)

    def numbers(self, rows: slice = slice(None)) -> NDArray[Any]:
        """Reads consecutive rows, as they are stored.

        Raises:
            CheckpointError: If the file cannot be read, or has become too short.
        """
        first, end, _ = rows.indices(self.shape[0] if self.shape else 1)
        width, kind = math.prod(self.shape[1:]), self._type
        place = self.offset + first * width * kind.itemsize
        with read_errors(self.path):
            values = np.fromfile(self.path, kind, (end - first) * width, offset=place)
        if len(values) < (end - first) * width:
            raise CheckpointError(f"{self.path} is truncated: it ends at byte {place + values.nbytes}")
        return values.reshape(self.shape and (end - first, *self.shape[1:]))

    @property
    def nbytes(self) -> int:
        """Size in the file, in bytes."""
        return math.prod(self.shape) * self._type.itemsize

    @property
    def _type(self) -> np.dtype[Any]:
        try:
            return TYPES.get(self.dtype) or np.dtype(self.dtype)
        except TypeError:
            raise CheckpointError(f"{self.path} has a tensor of the unknown type {self.dtype}") from None


class TemporaryFolder:
    """A folder that is removed with the last reference."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="dragoman-import-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


class BinaryReader:
    """Reads a file's index in little-endian order, one item after the other, and never beyond its end.

    Args:
        path: What messages name.
        file: The file, from its first byte.

    Attributes:
        size: Bytes of the file.
        position: Place of the next byte.
    """

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.path, self._file = path, file
        self.size = os.fstat(file.fileno()).st_size
        self.position = 0

    def integer(self, size: int, what: str) -> int:
        """Reads an unsigned integer of so many bytes; `what` names it in messages."""
        return int.from_bytes(self.read(size, what), "little")

    def read(self, size: int, what: str) -> bytes:
        """Reads so many bytes."""
        self._require(size, what)
        self.position += size
        return self._file.read(size)

    def skip(self, size: int, what: str) -> int:
        """Moves past so many bytes, and returns the position of the first."""
        start = self.position
        self._require(size, what)
        self.position = self._file.seek(start + size)
        return start

    def _require(self, size: int, what: str) -> None:
        if self.position + size > self.size:
            ends = f"ends at byte {self.position + size}, the file at {self.size}"
            raise CheckpointError(f"{self.path} is truncated: `{what}` {ends}")


@dataclass(frozen=True, eq=False)
class Part:
    """Rows of a foreign tensor that are rows of a parameter of ours.

    Attributes:
        name: Name of the tensor.
        rows: Their numbers in order; -1 for a row that the file lacks. None is all rows.
        filler: What such rows are filled with.
        is_transposed: Whether the file has the tensor's columns as rows.
        columns: Fills up with columns of zeros to this number; None keeps the tensor's number.
        is_optional: Whether a tensor that the file lacks stands for zeros.
    """

    name: str
    rows: NDArray[np.intp] | None = None
    filler: float = 0
    is_transposed: bool = False
    columns: int | None = None
    is_optional: bool = False

    def of(self, values: NDArray[Any], filler: float | None = None) -> NDArray[Any]:
        """Returns these rows of all rows of a tensor."""
        if self.rows is None:
            return values
        found = values[self.rows]
        found[self.rows < 0] = self.filler if filler is None else filler
        return found


class ForeignTensors(Mapping[str, ForeignTensor]):
    """The tensors of a model by name.

    Attributes:
        path: What messages name: the file, or its folder.
        tensors: The tensors. An alias is a name of the same object.
    """

    def __init__(self, path: Path, tensors: Mapping[str, ForeignTensor]) -> None:
        self.path = path
        self.tensors = dict(tensors)

    def __contains__(self, name: object) -> bool:
        return name in self.tensors

    def __iter__(self) -> Iterator[str]:
        return iter(self.tensors)

    def __len__(self) -> int:
        return len(self.tensors)

    def __getitem__(self, name: str) -> ForeignTensor:
        if name not in self.tensors:
            raise CheckpointError(f"{self.path}: tensor {name!r} is missing")
        return self.tensors[name]

    def reshape(self, name: str, *shape: int) -> None:
        """Reads a tensor in another shape of as many numbers."""
        self.tensors[name] = replace(self[name], shape=shape)

    def sizes(self, name: str, dimensions: int) -> tuple[int, ...]:
        """Returns the shape of a tensor.

        Raises:
            CheckpointError: If it has another number of dimensions, or one of them is 0.
        """
        shape = self[name].shape
        if len(shape) != dimensions or not all(shape):
            raise refusal(self.path, name, f"of {dimensions} dimensions, none of them 0", list(shape))
        return shape

    def number(self, name: str, default: float) -> float:
        """Returns a tensor with a single number, or the default if the file lacks the tensor.

        Raises:
            CheckpointError: If the tensor is not a single finite number.
        """
        if name not in self:
            return default
        tensor = self[name]
        if tensor.shape not in ((), (1,)) or tensor.dtype == "bfloat16":
            raise refusal(self.path, name, "a single number", f"{tensor.dtype} {list(tensor.shape)}")
        value = float(tensor.numbers().item())
        if not math.isfinite(value):
            raise refusal(self.path, name, "finite", value)
        return value

    def shape(self, part: Part) -> tuple[int, ...]:
        """Returns the shape of a part; with all rows of the tensor, if it lacks some of the part's."""
        shape = self[part.name].shape[:: -1 if part.is_transposed else 1]
        if part.columns is not None and len(shape) == 2:
            shape = shape[0], max(shape[1], part.columns)
        if not shape or part.rows is None or part.rows.max(initial=-1) >= shape[0]:
            return shape
        return len(part.rows), *shape[1:]

    def read(self, part: Part) -> Read:
        """Returns how to read a part, by rows where that is possible.

        Raises:
            CheckpointError: If there is no such tensor.
        """
        shape = self.shape(part)
        if part.is_transposed or part.columns is not None:
            return partial(self._whole, part)

        def read(some: slice) -> StoredTensor:
            first, end, _ = some.indices(shape[0] if shape else 1)
            index = np.arange(first, end) if part.rows is None else part.rows[some]
            return self.stored(part.name, index, part.filler)

        return RowReading(shape, read)

    def _whole(self, part: Part) -> StoredTensor:
        tensor = self.read(Part(part.name))()
        values = part.of(tensor.values.T if part.is_transposed else tensor.values)
        if part.columns is not None:
            values = np.pad(values, ((0, 0), (0, part.columns - values.shape[1])))
        scale = tensor.scale
        if scale is not None:  # a tensor that is transposed has one scale for all rows
            scale = np.full(len(values), scale[0]) if part.is_transposed else part.of(scale, 1)
        return StoredTensor(np.ascontiguousarray(values), tensor.dtype, scale)

    def stored(self, name: str, index: NDArray[np.intp], filler: float) -> StoredTensor:
        """Reads rows of a tensor by their numbers.

        Raises:
            CheckpointError: If it is not floating point.
        """
        if self[name].dtype not in _FLOATS:
            raise refusal(self.path, name, "floating point", self[name].dtype)
        return StoredTensor(self.gathered(name, index, filler), cast(StorageType, self[name].dtype))

    def gathered(self, name: str, index: NDArray[np.intp], filler: float) -> NDArray[Any]:
        """Reads rows by their numbers, as they are stored; neighbours at a time."""
        tensor = self[name]
        if not tensor.shape:
            return tensor.numbers()
        if tensor.dtype == "bfloat16":
            filler = StoredTensor.rounded(np.full(1, filler, np.float32), "bfloat16").values.item()
        values = np.full((len(index), *tensor.shape[1:]), filler, tensor.numbers(slice(0)).dtype)
        ends = np.append(np.flatnonzero(np.diff(index) != 1) + 1, len(index))
        first = 0
        for end in ends.tolist() if len(index) else ():
            if index[first] >= 0:
                values[first:end] = tensor.numbers(slice(int(index[first]), int(index[end - 1]) + 1))
            first = end
        return values

    def same(self, one: str, other: str) -> bool:
        """Returns whether two names are of one tensor, or of equal ones, as not every format has aliases."""
        left, right = self[one], self[other]
        if left == right:
            return True
        if (left.shape, left.dtype) != (right.shape, right.dtype):
            return False
        blocks = row_blocks(left.shape) if left.shape else iter([slice(None)])
        return all(left.numbers(rows).tobytes() == right.numbers(rows).tobytes() for rows in blocks)
