"""CTranslate2's `model.bin`: an index of its variables, each of them read when it is needed. No torch.

The file holds, in little-endian order: the version of the format, name and revision of the specification, the
variables (name, shape, type, numbers), and aliases, by which shared variables are stored once.
"""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from model.checkpoint.importing.reader import refusal
from model.checkpoint.importing.tensors import TYPES, BinaryReader, ForeignTensor, ForeignTensors, Part
from model.checkpoint.manifest import read_errors
from model.checkpoint.weights import StoredTensor
from model.errors import CheckpointError

NEWEST_VERSION = 6

_TYPES_BY_SIZE = {4: "float32", 2: "int16", 1: "int8"}
_MOST_DIMENSIONS = 8
_LEAST_VARIABLE_BYTES = 8
_MOST_TEXT_BYTES = 1000
_INT16_SCALE_OF_OLD_FILES = np.float32(1000)


class BinaryModel(ForeignTensors):
    """An opened `model.bin`, whose index has been checked against the size of the file.

    Attributes:
        path: The file.
        tensors: Variables by name. An alias is a name of the same object.
        version: Version of the format, 1 to 6.
        specification: Name of the network's specification; empty in version 1.
        revision: Revision of the specification.
    """

    def __init__(self, path: Path) -> None:
        """Reads the index.

        Raises:
            CheckpointError: If the file is not a complete `model.bin` of a known version.
        """
        super().__init__(path, {})
        with read_errors(path), path.open("rb") as file:
            self._read_index(BinaryReader(path, file))

    def _read_index(self, reader: BinaryReader) -> None:
        self.version = reader.integer(4, "version")
        if not 1 <= self.version <= NEWEST_VERSION:
            raise refusal(self.path, "version", f"1 to {NEWEST_VERSION}", self.version)
        self.specification = _text(reader, "specification") if self.version >= 2 else ""
        self.revision = reader.integer(4, "revision") if self.version >= 2 else 1
        count = reader.integer(4, "number of variables")
        if count * _LEAST_VARIABLE_BYTES > reader.size:
            raise refusal(self.path, "number of variables", "possible in a file of this size", count)
        for _ in range(count):
            self._add(_text(reader, "name of a variable"), reader)
        for _ in range(reader.integer(4, "number of aliases") if self.version >= 3 else 0):
            self._add_alias(_text(reader, "alias"), _text(reader, "name behind an alias"))
        if reader.position != reader.size:
            raise refusal(self.path, "size of the file", f"{reader.position} bytes", reader.size)

    def _add(self, name: str, reader: BinaryReader) -> None:
        self._require_new(name)
        rank = reader.integer(1, name)
        if rank > _MOST_DIMENSIONS:
            raise refusal(self.path, name, f"of at most {_MOST_DIMENSIONS} dimensions", rank)
        shape = tuple(reader.integer(4, name) for _ in range(rank))
        kind = reader.integer(1, name)
        types = dict(enumerate(TYPES)) if self.version >= 4 else _TYPES_BY_SIZE
        if kind not in types:
            raise refusal(self.path, name, f"of a type with a number in {sorted(types)}", kind)
        dtype = types[kind]
        size = reader.integer(4, name) * (1 if self.version >= 4 else kind)
        if size != math.prod(shape) * TYPES[dtype].itemsize:
            raise refusal(self.path, name, f"of as many bytes as {dtype} numbers of shape {shape} have", size)
        self.tensors[name] = ForeignTensor(self.path, reader.skip(size, name), shape, dtype)

    def _add_alias(self, alias: str, name: str) -> None:
        self._require_new(alias)
        if name not in self.tensors:
            raise refusal(self.path, alias, "an alias of a variable or alias before it", name)
        for suffix in ("", "_scale", "_zero"):
            if name + suffix in self.tensors:
                self.tensors.setdefault(alias + suffix, self.tensors[name + suffix])

    def _require_new(self, name: str) -> None:
        if name in self.tensors:
            raise refusal(self.path, name, "there once", "twice")

    def rename(self, name_of: Callable[[str], str]) -> None:
        """Gives each variable the name that a function makes of its present one."""
        before = self.tensors
        self.tensors = {}
        for name, variable in before.items():
            self._require_new(name_of(name))
            self.tensors[name_of(name)] = variable

    def text(self, name: str) -> str:
        """Returns a variable whose bytes are text.

        Raises:
            CheckpointError: If it is not UTF-8 in bytes.
        """
        variable = self[name]
        if variable.dtype != "int8" or math.prod(variable.shape) > _MOST_TEXT_BYTES:
            raise refusal(self.path, name, f"at most {_MOST_TEXT_BYTES} bytes of text", list(variable.shape))
        try:
            return variable.numbers().tobytes().decode("utf-8")
        except UnicodeDecodeError as error:
            raise refusal(self.path, name, "UTF-8", str(error)) from error

    def stored(self, name: str, index: NDArray[np.intp], filler: float) -> StoredTensor:
        """Reads rows of a variable: int8 with the scale of each row, int16 as float32, others as they are.

        Raises:
            CheckpointError: If the variable or the scale of integers is missing, or of a wrong type.
        """
        variable = self[name]
        if variable.dtype == "int32":
            raise refusal(self.path, name, "floating point, int8 or int16", variable.dtype)
        if name + "_zero" in self:
            raise refusal(self.path, name + "_zero", "absent: low-bit weights are not read", "present")
        if variable.dtype not in ("int8", "int16"):
            return super().stored(name, index, filler)
        values, scale = (
            self.gathered(name, index, filler),
            Part(name, index).of(self._scale(name, variable), 1),
        )
        if variable.dtype == "int8":
            return StoredTensor(values, "int8", scale)
        return StoredTensor(values * scale.reshape(-1, *[1] * (values.ndim - 1)), "float32")

    def same(self, one: str, other: str) -> bool:
        """See ForeignTensors; the scales of integers must be equal, too."""
        scales = [name + "_scale" for name in (one, other) if name + "_scale" in self]
        return super().same(one, other) and (len(scales) != 1) and (not scales or super().same(*scales))

    def _scale(self, name: str, variable: ForeignTensor) -> NDArray[np.float32]:
        """Returns the factor of each row."""
        known = self.tensors.get(name + "_scale")
        if known is None and variable.dtype == "int8":
            raise CheckpointError(f"{self.path}: variable `{name}_scale` is missing")
        count = variable.shape[0] if variable.shape else 1
        divisor = np.full((), _INT16_SCALE_OF_OLD_FILES)
        if known is not None:
            if known.dtype != "float32" or known.shape not in ((), (1,), (count,)):
                raise refusal(self.path, name + "_scale", f"1 or {count} float32 numbers", list(known.shape))
            divisor = known.numbers()
        if not (np.isfinite(divisor).all() and (divisor > 0).all()):
            raise refusal(self.path, name + "_scale", "positive and finite", float(divisor.min()))
        return np.broadcast_to(1 / divisor, count)


def _text(reader: BinaryReader, what: str) -> str:
    """Reads a length of two bytes, then text that ends with a zero byte."""
    content = reader.read(reader.integer(2, what), what)
    if not content or content[-1]:
        raise refusal(reader.path, what, "text that ends with a zero byte", content)
    try:
        return content[:-1].decode("utf-8")
    except UnicodeDecodeError:
        raise refusal(reader.path, what, "UTF-8", content) from None
