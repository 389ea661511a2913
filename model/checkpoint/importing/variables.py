"""ⓕ The tensors of a model's files, read a few rows at a time. No torch."""

import math
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from model.checkpoint.importing.foreign import refusal
from model.checkpoint.weights import StorageType, StoredTensor, row_blocks
from model.checkpoint.writing import RowReading
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
_TIES = {(True, True): "all", (True, False): "embeddings", (False, True): "decoder", (False, False): "none"}
_MOST_OFFSET = 3
_TABLE_TOLERANCE = 0.005  # bfloat16 rounds to 8 bits


@dataclass(frozen=True)
class Variable:
    """Where a file holds a tensor.

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
        try:
            values = np.fromfile(self.path, kind, (end - first) * width, offset=place)
        except OSError as error:
            raise CheckpointError(f"{self.path} cannot be read: {error.strerror}") from error
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

    def part(self, first: int, end: int) -> "Variable":
        """Returns consecutive rows as a variable."""
        offset = self.offset + first * math.prod(self.shape[1:]) * self._type.itemsize
        return replace(self, offset=offset, shape=(end - first, *self.shape[1:]))


class TemporaryFolder:
    """A folder that is removed with the last reference."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="dragoman-import-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


@dataclass(frozen=True, eq=False)
class Rows:
    """Which rows of a variable make up a parameter.

    Attributes:
        index: Their numbers in order; -1 for a row that the file lacks. None is all rows.
        filler: What such rows are filled with.
    """

    index: NDArray[np.intp] | None = None
    filler: float = 0

    def of(self, values: NDArray[Any], filler: float) -> NDArray[Any]:
        """Returns these rows of all rows of a variable."""
        if self.index is None:
            return values
        found = values[self.index]
        found[self.index < 0] = filler
        return found


ALL = Rows()


class Variables(Mapping[str, Variable]):
    """The tensors of a model by name.

    Attributes:
        path: What messages name: the file, or its folder.
        variables: The tensors. An alias is a name of the same object.
    """

    def __init__(self, path: Path, variables: Mapping[str, Variable]) -> None:
        self.path = path
        self.variables = dict(variables)

    def __contains__(self, name: object) -> bool:
        return name in self.variables

    def __iter__(self) -> Iterator[str]:
        return iter(self.variables)

    def __len__(self) -> int:
        return len(self.variables)

    def __getitem__(self, name: str) -> Variable:
        if name not in self.variables:
            raise CheckpointError(f"{self.path}: tensor {self.title(name)!r} is missing")
        return self.variables[name]

    def title(self, name: str) -> str:
        """Returns what a message calls a tensor."""
        return name

    def number(self, name: str, default: float) -> float:
        """Returns a variable with a single number, or the default if the file lacks the variable.

        Raises:
            CheckpointError: If the variable is not a single finite number.
        """
        if name not in self.variables:
            return default
        variable = self.variables[name]
        if variable.shape not in ((), (1,)) or variable.dtype == "bfloat16":
            raise refusal(self.path, name, "a single number", f"{variable.dtype} {list(variable.shape)}")
        value = float(variable.numbers().item())
        if not math.isfinite(value):
            raise refusal(self.path, name, "finite", value)
        return value

    def shape(self, name: str, rows: Rows = ALL) -> tuple[int, ...]:
        """Returns the shape of rows of a tensor; of all of them, if some of these are not there."""
        shape = self[name].shape
        if not shape or rows.index is None or rows.index.max(initial=-1) >= shape[0]:
            return shape
        return len(rows.index), *shape[1:]

    def read(self, name: str, rows: Rows = ALL) -> RowReading:
        """Returns how to read rows of a tensor.

        Raises:
            CheckpointError: If there is no such tensor.
        """

        def read(some: slice) -> StoredTensor:
            first, end, _ = some.indices(shape[0] if shape else 1)
            index = np.arange(first, end) if rows.index is None else rows.index[some]
            return self.stored(name, index, rows.filler)

        shape = self.shape(name, rows)
        return RowReading(shape, read)

    def stored(self, name: str, index: NDArray[np.intp], filler: float) -> StoredTensor:
        """Reads rows of a tensor by their numbers.

        Raises:
            CheckpointError: If it is not floating point.
        """
        if self[name].dtype not in _FLOATS:
            raise refusal(self.path, self.title(name), "floating point", self[name].dtype)
        return StoredTensor(self.gathered(name, index, filler), cast(StorageType, self[name].dtype))

    def gathered(self, name: str, index: NDArray[np.intp], filler: float) -> NDArray[Any]:
        """Reads rows by their numbers, as they are stored; neighbours at a time."""
        variable = self[name]
        if not variable.shape:
            return variable.numbers()
        if variable.dtype == "bfloat16":
            filler = StoredTensor.rounded(np.full(1, filler, np.float32), "bfloat16").values.item()
        values = np.full((len(index), *variable.shape[1:]), filler, variable.numbers(slice(0)).dtype)
        ends = np.append(np.flatnonzero(np.diff(index) != 1) + 1, len(index))
        first = 0
        for end in ends.tolist() if len(index) else ():
            if index[first] >= 0:
                values[first:end] = variable.numbers(slice(int(index[first]), int(index[end - 1]) + 1))
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


def tie(*, shares_embeddings: bool, shares_output: bool) -> str:
    """Returns `tie` of a network.

    Args:
        shares_embeddings: Whether both sides have one embedding.
        shares_output: Whether the output projection is the target's embedding.
    """
    return _TIES[shares_embeddings, shares_output]


def table_positions(tables: Sequence[NDArray[np.float32]]) -> dict[str, object]:
    """Returns the positions of a network by the tables of both sides, (positions, width).

    A table of sinusoids becomes the formula that makes it, another one is learned.
    """
    longest = min(map(len, tables))
    formulas = [_sinusoid_formula(table[:longest]) for table in tables]
    if formulas[0] == formulas[1] and formulas[0] is not None:
        return {"positions": "sinusoidal", "max_positions": longest} | formulas[0]
    return {"positions": "learned", "max_positions": longest}


def _sinusoid_formula(table: NDArray[np.float32]) -> dict[str, object] | None:
    """Returns the configuration whose sinusoids make a table; None if they are of no known kind."""
    count, width = table.shape
    if width < 4 or width % 2:
        return None
    errors = {}
    for endpoint, offset in product((False, True), range(_MOST_OFFSET + 1)):
        rates = 10000.0 ** (-np.arange(width // 2) / (width / 2 - endpoint))
        angles = (np.arange(count)[:, None] + offset) * rates
        pairs = np.stack([np.sin(angles), np.cos(angles)])  # (2, T, M/2)
        ours = {"halves": pairs.transpose(1, 0, 2), "interleaved": pairs.transpose(1, 2, 0)}
        for layout, values in ours.items():
            error = np.abs(values.reshape(count, width) - table).max()
            errors[layout, offset, endpoint] = float(error)
    best = min(errors, key=errors.__getitem__)
    names = ("sinusoid_layout", "sinusoid_offset", "sinusoid_endpoint")
    return dict(zip(names, best, strict=True)) if errors[best] < _TABLE_TOLERANCE else None
