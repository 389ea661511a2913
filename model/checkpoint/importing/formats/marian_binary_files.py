"""Marian's binary files: weights (`.bin`, `.npz`) with the model's configuration, and shortlists. No torch.

A `.bin` file of version 1 has, in little-endian 64-bit integers, the version and the number of tensors; for
each tensor the lengths of its name and shape, its type and its bytes; then all names, all shapes (32-bit), a
gap to a multiple of 256 bytes, and the values. A file that ends in `.gz` is read as if it were unpacked.

Matrices are stored [inputs, outputs]. Quantised ones (intgemm), except embeddings, are transposed; a float32
multiplier m follows them: weight = integer / m.

A shortlist (`lex.50.50.enpt.s2t.bin`) has, in little-endian 64-bit integers, a magic number, a checksum, how
many of the first target ids are always candidates, the longest list, and the lengths of two arrays: the
offsets (64-bit) of the lists, and the lists (32-bit target ids), one a source id.
"""

import gzip
import struct
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import IO, cast

import numpy as np
from numpy.typing import NDArray

from model.checkpoint.importing.reader import refusal
from model.checkpoint.importing.tensors import BinaryReader, ForeignTensor, ForeignTensors, TemporaryFolder
from model.checkpoint.shortlist import Shortlist
from model.checkpoint.weights import StoredTensor
from model.config import TransformerConfig
from model.errors import CheckpointError

_SHORTLIST_HEADER = struct.Struct("<6Q")
_MAGIC = 0xF11A48D5013417F5
_ROWS_AT_A_TIME = 1024
CONFIGURATION = "special:model.yml"
ZSTANDARD = ".zst"
_VERSION = 1
_HEADER = struct.Struct("<4Q")
_COUNT = struct.Struct("<2Q")
_MOST_TENSORS = 100_000
_MOST_NAME_BYTES = 1000
_MOST_DIMENSIONS = 8
_MOST_NESTED = 10
_MOST_UNPACKED_BYTES = 2**33
_GZIP = ".gz"
_TYPES: Mapping[int, str] = {0x101: "int8", 0x402: "float16", 0x404: "float32", 0x408: "float64"}
# browsermt's Marian, which makes Firefox's models, and upstream Marian number these types differently.
_QUANTISED_TYPES: Mapping[int, str] = {0x4101: "int8", 0x4102: "int16", 0x10001: "int8", 0x10002: "int16"}


class MarianFile(ForeignTensors):
    """An opened weight file.

    Attributes:
        config: Content of `special:model.yml`.
    """

    def __init__(self, path: Path) -> None:
        """Reads the file's headers and its configuration."""
        super().__init__(path, {})
        self._multipliers: dict[str, ForeignTensor] = {}
        try:
            self._read_npz() if _is_npz(path) else self._read_bin()
        except (OSError, EOFError, ValueError, zipfile.BadZipFile, struct.error) as error:
            raise CheckpointError(f"{path} is not a Marian model: {error}") from error
        for name, tensor in self.items():
            if len(tensor.shape) == 2 and tensor.shape[0] == 1:  # vectors are matrices of one row
                self.reshape(name, tensor.shape[1])
        content = self[CONFIGURATION].numbers().tobytes().split(b"\0")[0]
        self.config = read_yaml(content, f"{path}: {CONFIGURATION}")

    def lengths(self, name: str) -> tuple[int, ...]:
        """Returns a tensor's shape in Marian's sense, matrices as [inputs, outputs]."""
        return self[name].shape[:: -1 if self.has_outputs_first(name) else 1]

    def has_outputs_first(self, name: str) -> bool:
        """Returns whether a matrix is stored as [outputs, inputs]."""
        return name in self._multipliers and "Wemb" not in name and len(self[name].shape) == 2

    def stored(self, name: str, index: NDArray[np.intp], filler: float) -> StoredTensor:
        """See ForeignTensors; int8 with one scale for all rows."""
        # Types are checked here, so that tensors that no network uses may have any.
        if self[name].dtype.startswith("0x"):
            known = ", ".join(hex(each) for each in (*_TYPES, *_QUANTISED_TYPES))
            where = f"{self.path}: tensor {name!r}"
            raise CheckpointError(
                f"{where} must have a type among {known}, but has {self[name].dtype} instead"
            )
        if self[name].dtype in ("float32", "float16"):
            return super().stored(name, index, filler)
        values = self.gathered(name, index, filler)
        if name not in self._multipliers:
            return StoredTensor(values.astype(np.float32), "float32")
        multiplier = self._multipliers[name].numbers().item()
        if not (isfinite(multiplier) and multiplier > 0):
            raise refusal(self.path, name, "quantised by a positive multiplier", multiplier)
        if values.dtype != np.int8:
            return StoredTensor(values.astype(np.float32) / np.float32(multiplier), "float32")
        return StoredTensor(values, "int8", np.full(len(values), 1 / multiplier, np.float32))

    def _read_bin(self) -> None:
        """Reads the headers of a `.bin` file, and checks them against its size."""
        path, owner = self._unpacked_file()
        with path.open("rb") as file:
            reader = BinaryReader(self.path, file)
            version, count = (reader.integer(8, what) for what in ("version", "number of tensors"))
            if version != _VERSION:
                raise refusal(self.path, "version", str(_VERSION), version)
            if count > (most := min(_MOST_TENSORS, reader.size // _HEADER.size)):
                raise refusal(self.path, "number of tensors", f"at most {most}", count)
            headers = [_HEADER.unpack(reader.read(_HEADER.size, "headers")) for _ in range(count)]
            names = [_name(reader, header[0]) for header in headers]
            shapes = [_shape(reader, name, header[2]) for name, header in zip(names, headers, strict=True)]
            gap = reader.integer(8, "gap before the values")
            size, start = reader.size, reader.position + gap
        for name, shape, (_, type_, _, length) in zip(names, shapes, headers, strict=True):
            where = f"{self.path}: tensor {name!r}"
            if start + length > size:
                ends = f"must end by byte {size}, but ends at {start + length}"
                raise CheckpointError(f"{where} {ends}: the file is truncated")
            if name in self:
                raise CheckpointError(f"{where} is there twice")
            dtype = _QUANTISED_TYPES.get(type_) or _TYPES.get(type_)
            tensor = ForeignTensor(path, start, shape, dtype or hex(type_), owner)
            num_bytes = tensor.nbytes if dtype else 0
            if length < (needed := num_bytes + 4 * (type_ in _QUANTISED_TYPES)):
                raise CheckpointError(f"{where} must have {needed} bytes, but has {length} instead")
            if type_ in _QUANTISED_TYPES:
                self._multipliers[name] = ForeignTensor(path, start + num_bytes, (), "float32", owner)
                if "Wemb" not in name and len(shape) == 2:
                    tensor = replace(tensor, shape=shape[::-1])
            self[name] = tensor
            start += length

    def _unpacked_file(self) -> tuple[Path, TemporaryFolder | None]:
        """Returns the file, or where it was unpacked and what keeps it there."""
        if self.path.suffix != _GZIP:
            return self.path, None
        owner = TemporaryFolder()
        path = owner.path / "unpacked"
        path.write_bytes(unpacked(self.path))
        return path, owner

    def _read_npz(self) -> None:
        """Unpacks the tensors of an `.npz` file, and finds where their numbers begin."""
        owner = TemporaryFolder()
        with zipfile.ZipFile(self.path) as archive:
            size = sum(member.file_size for member in archive.infolist())
            if size > _MOST_UNPACKED_BYTES:
                raise refusal(self.path, "size when unpacked", f"at most {_MOST_UNPACKED_BYTES} bytes", size)
            for member in archive.namelist():
                path = Path(archive.extract(member, owner.path))
                values, name = np.load(path, mmap_mode="r"), member.removesuffix(".npy")
                if not values.flags.c_contiguous:
                    where = f"{self.path}: tensor {name!r}"
                    raise CheckpointError(f"{where} must hold numbers in rows, but holds columns")
                kind = values.dtype.name if values.dtype.isnative else values.dtype.str
                self[name] = ForeignTensor(path, values.offset, values.shape, kind, owner)


def is_marian_file(path: Path) -> bool:
    """Returns whether a file looks like Marian's weights, by its first bytes or its archive's names.

    Packed by Zstandard, as Firefox downloads them, weights are told by their name alone.
    """
    if path.suffix == ZSTANDARD:
        return True
    try:
        if _is_npz(path):
            with zipfile.ZipFile(path) as archive:
                return f"{CONFIGURATION}.npy" in archive.namelist()
        with _opened(path) as file:
            version, count = _COUNT.unpack(file.read(_COUNT.size))
            name_length, type_, _, _ = _HEADER.unpack(file.read(_HEADER.size))
    except (OSError, EOFError, struct.error, zipfile.BadZipFile):
        return False
    fits = 0 < count <= _MOST_TENSORS and 1 < name_length <= _MOST_NAME_BYTES and 0 < type_ < 2**20
    return bool(version == _VERSION and fits)


def read_marian_shortlist(path: Path, config: TransformerConfig) -> Shortlist | None:
    """Reads a shortlist for a network; None if the file is text.

    Marian adds the source tokens themselves to the candidates if both sides have one vocabulary.
    """
    content = unpacked(path)
    if content[:8] != _MAGIC.to_bytes(8, "little"):
        if not content or b"\0" in content:
            raise refusal(path, "magic number", hex(_MAGIC), content[:8].hex())
        return None
    if len(content) < _SHORTLIST_HEADER.size:
        raise refusal(path, "size", f"at least {_SHORTLIST_HEADER.size} bytes", len(content))
    _, _, num_first, _, num_offsets, num_candidates = _SHORTLIST_HEADER.unpack_from(content)
    size = _SHORTLIST_HEADER.size + 8 * num_offsets + 4 * num_candidates
    if len(content) != size:
        raise refusal(path, "size", f"the {size} bytes that its header tells", len(content))
    if not 1 < num_offsets <= config.source_vocab_size + 1:
        bounds = f"between 2 and {config.source_vocab_size + 1}"
        raise refusal(path, "number of offsets", bounds, num_offsets)
    offsets = np.frombuffer(content, "<u8", num_offsets, _SHORTLIST_HEADER.size)
    candidates = np.frombuffer(content, "<u4", num_candidates, _SHORTLIST_HEADER.size + 8 * num_offsets)
    if offsets[0] or offsets[-1] != num_candidates or (offsets[1:] < offsets[:-1]).any():
        raise refusal(path, "offsets", f"ascending from 0 to {num_candidates}", offsets[[0, -1]].tolist())
    if (candidates >= config.target_vocab_size).any():
        below = f"target ids below {config.target_vocab_size}"
        raise refusal(path, "lists", below, int(candidates.max()))
    return _shortlist(min(num_first, config.target_vocab_size), offsets, candidates, config)


def _shortlist(
    num_first: int, offsets: np.ndarray, candidates: np.ndarray, config: TransformerConfig
) -> Shortlist:
    always = np.union1d(np.arange(num_first), [config.eos_id]).astype(np.int32)
    rows, size = len(offsets) - 1, config.target_vocab_size
    lists: list[np.ndarray] = []
    counts = np.zeros(config.source_vocab_size, np.int64)
    for first in range(0, rows, _ROWS_AT_A_TIME):
        bounds = offsets[first : first + _ROWS_AT_A_TIME + 1].astype(np.int64)
        owners = np.arange(first, first + len(bounds) - 1)
        # One number a pair of source and target id, so that sorting them takes little memory.
        pairs = np.repeat(owners, np.diff(bounds)) * size + candidates[bounds[0] : bounds[-1]]
        if config.tie in ("all", "embeddings"):
            pairs = np.concatenate([pairs, owners * (size + 1)])
        pairs = np.unique(pairs)
        pairs = pairs[~np.isin(pairs % size, always)]
        counts += np.bincount(pairs // size, minlength=len(counts))
        lists.append((pairs % size).astype(np.int32))
    ends = np.concatenate([[0], np.cumsum(counts)])
    return Shortlist(always, ends.astype(np.int32), np.concatenate(lists))


def unpacked(path: Path) -> bytes:
    """Returns the content of a file, unpacked if its name ends in `.gz`."""
    try:
        with _opened(path) as file:
            content = file.read(_MOST_UNPACKED_BYTES + 1)
    except (OSError, EOFError) as error:
        raise CheckpointError(f"cannot read {path}: {error}") from error
    if len(content) > _MOST_UNPACKED_BYTES:
        raise CheckpointError(f"{path} must have at most {_MOST_UNPACKED_BYTES} bytes when unpacked")
    return content


def read_yaml(content: bytes, where: str, *, as_text: bool = False) -> Mapping[str, object]:
    """Returns a YAML mapping; `as_text` keeps every key and value as text."""
    try:
        import yaml
    except ModuleNotFoundError:
        raise CheckpointError("Marian models need PyYAML: pip install --editable '.[import]'") from None
    name = "BaseLoader" if as_text else "SafeLoader"
    loader = getattr(yaml, f"C{name}", getattr(yaml, name))
    try:
        # Deep nesting crashes PyYAML, and a few aliases can stand for more values than memory holds.
        depth = 0
        for token in yaml.scan(content, loader):
            depth += token.id.endswith(("start>", "[", "{")) - token.id.endswith(("end>", "]", "}"))
            if depth > _MOST_NESTED or token.id == "<alias>":
                raise CheckpointError(
                    f"{where} must be YAML without aliases, nested {_MOST_NESTED} deep at most"
                )
        values = yaml.load(content, loader)  # noqa: S506  # both are safe
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{where} is not YAML: {error}") from error
    if not isinstance(values, dict):
        raise CheckpointError(f"{where} must hold a YAML mapping")
    return cast(Mapping[str, object], values)


def _opened(path: Path) -> IO[bytes]:
    return cast(IO[bytes], gzip.open(path)) if path.suffix == _GZIP else path.open("rb")


def _is_npz(path: Path) -> bool:
    return path.suffix == ".npz"


def _name(reader: BinaryReader, length: int) -> str:
    if not 1 < length <= _MOST_NAME_BYTES:
        raise refusal(reader.path, "length of a tensor's name", f"between 2 and {_MOST_NAME_BYTES}", length)
    return reader.read(length, "names")[:-1].decode("utf-8")


def _shape(reader: BinaryReader, name: str, length: int) -> tuple[int, ...]:
    where = f"{reader.path}: tensor {name!r}"
    if length > _MOST_DIMENSIONS:
        raise refusal(where, "dimensions", f"at most {_MOST_DIMENSIONS}", length)
    shape = struct.unpack(f"<{length}i", reader.read(4 * length, "shapes"))
    if any(extent < 0 for extent in shape):
        raise refusal(where, "shape", "of lengths that are not negative", list(shape))
    return shape
