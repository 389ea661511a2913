"""ⓕ CTranslate2's `model.bin`: an index of its variables, each of them read when it is needed. No torch.

The file holds, in little-endian order: the version of the format, name and revision of the specification, the
variables (name, shape, type, numbers), and aliases, by which shared variables are stored once.
"""

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from model.checkpoint.importing.foreign import refusal
from model.checkpoint.weights import StorageType, StoredTensor
from model.errors import CheckpointError

NEWEST_VERSION = 6

# In the order of CTranslate2's DataType; numpy has no bfloat16, whose bits are kept in integers.
_TYPES: Mapping[str, np.dtype[Any]] = {
    "float32": np.dtype("<f4"),
    "int8": np.dtype("<i1"),
    "int16": np.dtype("<i2"),
    "int32": np.dtype("<i4"),
    "float16": np.dtype("<f2"),
    "bfloat16": np.dtype("<u2"),
}
_TYPES_BY_SIZE = {4: "float32", 2: "int16", 1: "int8"}
_FLOATS = ("float32", "float16", "bfloat16")
_MOST_DIMENSIONS = 8
_LEAST_VARIABLE_BYTES = 8
_COMPARED_BYTES = 2**20
_MOST_TEXT_BYTES = 1000
_INT16_SCALE_OF_OLD_FILES = np.float32(1000)


@dataclass(frozen=True)
class Variable:
    """A variable of the file.

    Attributes:
        offset: Position of its first byte.
        shape: Lengths of its dimensions; empty for a single number.
        dtype: CTranslate2's name of its type.
    """

    offset: int
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Which rows of a variable make up a parameter, in which order.

    Attributes:
        start: First row.
        stop: The row after the last; None is the end of the variable.
        size: Rows of the parameter; None is as many as are read.
        filler: What those are filled with that the variable lacks.
        swaps: Pairs of rows that change places, one after the other.
        order: The rows to take, of those read; None is all of them.
    """

    start: int = 0
    stop: int | None = None
    size: int | None = None
    filler: float = 0
    swaps: Sequence[tuple[int, int]] = ()
    order: NDArray[np.intp] | None = None

    def count(self, available: int) -> int:
        """Returns the rows of the parameter, of a variable with so many rows."""
        if self.order is not None:
            return len(self.order)
        return self.size or len(range(available)[self.start : self.stop])

    def arranged(self, values: NDArray[Any]) -> NDArray[Any]:
        """Returns rows that have been read, swapped in place or taken in another order."""
        for left, right in self.swaps:
            values[[left, right]] = values[[right, left]]
        return values if self.order is None else np.ascontiguousarray(values[self.order])


ALL = Rows()
"""All rows of a variable, as they are."""


class BinaryModel:
    """An opened `model.bin`, whose index has been checked against the size of the file.

    Attributes:
        path: The file.
        version: Version of the format, 1 to 6.
        specification: Name of the network's specification; empty in version 1.
        revision: Revision of the specification.
        variables: Variables by name. An alias is a name of the same object.
    """

    def __init__(self, path: Path) -> None:
        """Reads the index.

        Raises:
            CheckpointError: If the file is not a complete `model.bin` of a known version.
        """
        self.path = path
        self.variables: dict[str, Variable] = {}
        try:
            with path.open("rb") as file:
                self._read_index(_Reader(path, file))
        except OSError as error:
            raise CheckpointError(f"{path} cannot be read: {error.strerror}") from error

    def _read_index(self, reader: "_Reader") -> None:
        self.version = reader.integer(4, "version")
        if not 1 <= self.version <= NEWEST_VERSION:
            raise refusal(self.path, "version", f"1 to {NEWEST_VERSION}", self.version)
        self.specification = reader.text("specification") if self.version >= 2 else ""
        self.revision = reader.integer(4, "revision") if self.version >= 2 else 1
        count = reader.integer(4, "number of variables")
        if count * _LEAST_VARIABLE_BYTES > reader.size:
            raise refusal(self.path, "number of variables", "possible in a file of this size", count)
        for _ in range(count):
            self._add(reader.text("name of a variable"), reader)
        for _ in range(reader.integer(4, "number of aliases") if self.version >= 3 else 0):
            self._add_alias(reader.text("alias"), reader.text("name behind an alias"))
        if reader.position != reader.size:
            raise refusal(self.path, "size of the file", f"{reader.position} bytes", reader.size)

    def _add(self, name: str, reader: "_Reader") -> None:
        self._require_new(name)
        rank = reader.integer(1, name)
        if rank > _MOST_DIMENSIONS:
            raise refusal(self.path, name, f"of at most {_MOST_DIMENSIONS} dimensions", rank)
        shape = tuple(reader.integer(4, name) for _ in range(rank))
        kind = reader.integer(1, name)
        types = dict(enumerate(_TYPES)) if self.version >= 4 else _TYPES_BY_SIZE
        if kind not in types:
            raise refusal(self.path, name, f"of a type with a number in {sorted(types)}", kind)
        dtype = types[kind]
        size = reader.integer(4, name) * (1 if self.version >= 4 else kind)
        if size != math.prod(shape) * _TYPES[dtype].itemsize:
            raise refusal(self.path, name, f"of as many bytes as {dtype} numbers of shape {shape} have", size)
        self.variables[name] = Variable(reader.skip(size, name), shape, dtype)

    def _add_alias(self, alias: str, name: str) -> None:
        self._require_new(alias)
        if name not in self.variables:
            raise refusal(self.path, alias, "an alias of a variable or alias before it", name)
        for suffix in ("", "_scale", "_zero"):
            if name + suffix in self.variables:
                self.variables.setdefault(alias + suffix, self.variables[name + suffix])

    def _require_new(self, name: str) -> None:
        if name in self.variables:
            raise refusal(self.path, name, "there once", "twice")

    def rename(self, name_of: Callable[[str], str]) -> None:
        """Gives each variable the name that a function makes of its present one."""
        before = self.variables
        self.variables = {}
        for name, variable in before.items():
            self._require_new(name_of(name))
            self.variables[name_of(name)] = variable

    def variable(self, name: str) -> Variable:
        """Returns a variable.

        Raises:
            CheckpointError: If the file lacks the variable.
        """
        if name not in self.variables:
            raise CheckpointError(f"{self.path}: variable `{name}` is missing")
        return self.variables[name]

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
        value = float(self._numbers(variable)[0])
        if not math.isfinite(value):
            raise refusal(self.path, name, "finite", value)
        return value

    def text(self, name: str) -> str:
        """Returns a variable whose bytes are text.

        Raises:
            CheckpointError: If it is not UTF-8 in bytes.
        """
        variable = self.variable(name)
        if variable.dtype != "int8" or math.prod(variable.shape) > _MOST_TEXT_BYTES:
            raise refusal(self.path, name, f"at most {_MOST_TEXT_BYTES} bytes of text", list(variable.shape))
        try:
            return self._numbers(variable).tobytes().decode("utf-8")
        except UnicodeDecodeError as error:
            raise refusal(self.path, name, "UTF-8", str(error)) from error

    def shape(self, name: str, rows: Rows = ALL) -> tuple[int, ...]:
        """Returns the shape of rows of a variable."""
        shape = self.variable(name).shape
        return shape and (rows.count(shape[0]), *shape[1:])

    def tensor(self, name: str, rows: Rows = ALL) -> StoredTensor:
        """Reads rows of a variable: int8 with the scale of each row, int16 as float32, others as they are.

        Raises:
            CheckpointError: If the variable or the scale of integers is missing, or of a wrong type.
        """
        variable = self.variable(name)
        if variable.dtype not in (*_FLOATS, "int8", "int16"):
            raise refusal(self.path, name, "floating point, int8 or int16", variable.dtype)
        if name + "_zero" in self.variables:
            raise refusal(self.path, name + "_zero", "absent: low-bit weights are not read", "present")
        values = self._rows(variable, rows)
        if variable.dtype in _FLOATS:
            return StoredTensor(values, cast(StorageType, variable.dtype))
        scale = self._scale(name, variable, rows)
        if variable.dtype == "int8":
            return StoredTensor(values, "int8", scale)
        floats = values.astype(np.float32)
        floats *= scale.reshape(-1, *[1] * (floats.ndim - 1))
        return StoredTensor(floats, "float32")

    def are_equal(self, one: Variable, other: Variable) -> bool:
        """Returns whether two variables of the same shape and type hold the same numbers."""
        left, right = (memoryview(bytearray(_COMPARED_BYTES)) for _ in range(2))
        size = math.prod(one.shape) * _TYPES[one.dtype].itemsize
        for start in range(0, size, _COMPARED_BYTES):
            length = min(_COMPARED_BYTES, size - start)
            for part, variable in ((left, one), (right, other)):
                self._read_into(np.frombuffer(part[:length], np.uint8), variable.offset + start)
            if left[:length] != right[:length]:
                return False
        return True

    def _scale(self, name: str, variable: Variable, rows: Rows) -> NDArray[np.float32]:
        """Returns what each of the rows is multiplied by."""
        known = self.variables.get(name + "_scale")
        if known is None and variable.dtype == "int8":
            raise CheckpointError(f"{self.path}: variable `{name}_scale` is missing")
        count = variable.shape[0] if variable.shape else 1
        divisor = np.full((), _INT16_SCALE_OF_OLD_FILES)
        if known is not None:
            if known.dtype != "float32" or known.shape not in ((), (1,), (count,)):
                raise refusal(self.path, name + "_scale", f"1 or {count} float32 numbers", list(known.shape))
            divisor = self._numbers(known)
        if not (np.isfinite(divisor).all() and (divisor > 0).all()):
            raise refusal(self.path, name + "_scale", "positive and finite", float(divisor.min()))
        found = np.broadcast_to(1 / divisor, count)[rows.start : rows.stop]
        scale = np.ones(max(len(found), rows.size or 0), np.float32)
        scale[: len(found)] = found
        return cast(NDArray[np.float32], rows.arranged(scale))

    def _rows(self, variable: Variable, rows: Rows) -> NDArray[Any]:
        if not variable.shape:
            return self._numbers(variable).reshape(())
        width = math.prod(variable.shape[1:])
        found = range(variable.shape[0])[rows.start : rows.stop]
        values = np.empty((max(len(found), rows.size or 0), *variable.shape[1:]), _TYPES[variable.dtype])
        filler = StoredTensor.rounded(np.full(1, rows.filler, np.float32), "bfloat16").values
        values[len(found) :] = filler if variable.dtype == "bfloat16" else rows.filler
        self._read_into(values[: len(found)], variable.offset + found.start * width * values.itemsize)
        return rows.arranged(values)

    def _numbers(self, variable: Variable) -> NDArray[Any]:
        values = np.empty(math.prod(variable.shape), _TYPES[variable.dtype])
        self._read_into(values, variable.offset)
        return values

    def _read_into(self, values: NDArray[Any], offset: int) -> None:
        try:
            with self.path.open("rb") as file:
                file.seek(offset)
                done = file.readinto(cast(memoryview, values.reshape(-1).view(np.uint8)))
        except OSError as error:
            raise CheckpointError(f"{self.path} cannot be read: {error.strerror}") from error
        if done != values.nbytes:
            raise refusal(
                self.path, "size of the file", f"at least {offset + values.nbytes} bytes", offset + done
            )


class _Reader:
    """Reads the index, one number or name after the other, and never beyond the end of the file."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self._path, self._file = path, file
        self.size = os.fstat(file.fileno()).st_size
        self.position = 0

    def integer(self, size: int, what: str) -> int:
        """Reads an unsigned integer of so many bytes."""
        return int.from_bytes(self._bytes(size, what), "little")

    def text(self, what: str) -> str:
        """Reads a length of two bytes, then text that ends with a zero byte."""
        content = self._bytes(self.integer(2, what), what)
        if not content or content[-1]:
            raise refusal(self._path, what, "text that ends with a zero byte", content)
        try:
            return content[:-1].decode("utf-8")
        except UnicodeDecodeError:
            raise refusal(self._path, what, "UTF-8", content) from None

    def skip(self, size: int, what: str) -> int:
        """Moves past so many bytes, and returns the position of the first."""
        start = self.position
        self._require(size, what)
        self._file.seek(start + size)
        self.position += size
        return start

    def _bytes(self, size: int, what: str) -> bytes:
        self._require(size, what)
        self.position += size
        return self._file.read(size)

    def _require(self, size: int, what: str) -> None:
        if self.position + size > self.size:
            ends = f"ends at byte {self.position + size}, the file at {self.size}"
            raise CheckpointError(f"{self._path} is truncated: `{what}` {ends}")
