"""ⓕ Marian's weight files, `.bin` and `.npz`: tensors by name, and the model's configuration. No torch.

A `.bin` file of version 1 has, in little-endian 64-bit integers, the version and the number of tensors; for
each tensor the lengths of its name and shape, its type and its bytes; then all names, all shapes (32-bit), a
gap to a multiple of 256 bytes, and the values. A file that ends in `.gz` is read as if it were unpacked.

Matrices are stored [inputs, outputs]. Quantised ones (intgemm), except embeddings, are transposed; a float32
multiplier m follows them: weight = integer / m.
"""

import gzip
import struct
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import BytesIO
from math import isfinite, prod
from pathlib import Path
from typing import IO, cast

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from model.checkpoint.importing.foreign import refusal
from model.checkpoint.weights import StoredTensor
from model.checkpoint.writing import Read
from model.errors import CheckpointError

Numbers = NDArray[np.generic]

CONFIGURATION = "special:model.yml"
ZSTANDARD = ".zst"
_VERSION = 1
_HEADER = struct.Struct("<4Q")
_COUNT = struct.Struct("<2Q")
_LENGTH = struct.Struct("<Q")
_MOST_TENSORS = 100_000
_MOST_NAME_BYTES = 1000
_MOST_DIMENSIONS = 8
_MOST_NESTED = 10
_MOST_UNPACKED_BYTES = 2**33
_GZIP = ".gz"
_TYPES: Mapping[int, str] = {
    0x101: "|i1",
    0x402: "<f2",
    0x404: "<f4",
    0x408: "<f8",
}
# browsermt's Marian, which makes Firefox's models, and upstream Marian number these types differently.
_QUANTISED_TYPES: Mapping[int, str] = {0x4101: "|i1", 0x4102: "<i2", 0x10001: "|i1", 0x10002: "<i2"}


@dataclass(frozen=True)
class _Tensor:
    """A tensor of a file: its shape in Marian's sense, and how to read its values as they are stored.

    Attributes:
        shape: [inputs, outputs] of a matrix.
        read: Returns the values, flat, and the multiplier of a quantised tensor.
    """

    shape: tuple[int, ...]
    read: Callable[[], tuple[Numbers, float | None]]


class MarianFile:
    """An opened weight file.

    Attributes:
        path: Path of the file.
        config: Content of `special:model.yml`.
    """

    def __init__(self, path: Path) -> None:
        """Reads the file's headers and its configuration.

        Raises:
            CheckpointError: If the file is missing, truncated or malformed; the message names the tensor.
        """
        self.path = path
        try:
            self._tensors = _npz_tensors(path) if _is_npz(path) else _bin_tensors(path)
        except (OSError, EOFError, ValueError, zipfile.BadZipFile, struct.error) as error:
            raise CheckpointError(f"{path} is not a Marian model: {' '.join(str(error).split())}") from error
        self.config = self._configuration()

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def shape(self, name: str) -> tuple[int, ...]:
        """Returns a tensor's shape, matrices as [inputs, outputs].

        Raises:
            CheckpointError: If the file has no such tensor.
        """
        return self._tensor(name).shape

    def matrix(self, name: str) -> Read:
        """Returns the reading of a projection's weights, [outputs, inputs]; int8 ones as they are."""
        self._require_matrix(name)
        return lambda: self._stored(name, transposed=True)

    def table(self, name: str) -> Read:
        """Returns the reading of a matrix as Marian sees it, such as [words, dimensions] of an embedding."""
        self._require_matrix(name)
        return lambda: self._stored(name, transposed=False)

    def vector(self, name: str) -> Read:
        """Returns the reading of a bias or of a norm's parameters."""
        self._tensor(name)
        return lambda: StoredTensor(self._tensor(name).read()[0].astype(np.float32), "float32")

    def _tensor(self, name: str) -> _Tensor:
        if name not in self._tensors:
            raise CheckpointError(f"{self.path}: tensor {name!r} is missing")
        return self._tensors[name]

    def _require_matrix(self, name: str) -> None:
        shape = self._tensor(name).shape
        if len(shape) != 2:
            raise refusal(self.path, name, "a matrix", list(shape))

    def _stored(self, name: str, *, transposed: bool) -> StoredTensor:
        tensor = self._tensor(name)
        numbers, multiplier = tensor.read()
        is_turned = multiplier is not None and "Wemb" not in name
        values = numbers.reshape(tensor.shape[::-1] if is_turned else tensor.shape)
        values = np.ascontiguousarray(values if transposed == is_turned else values.T)
        if multiplier is None and values.dtype == np.float16:
            return StoredTensor(values, "float16")
        if multiplier is None:
            return StoredTensor(values.astype(np.float32), "float32")
        if not (isfinite(multiplier) and multiplier > 0):
            raise refusal(self.path, name, "quantised by a positive multiplier", multiplier)
        if values.dtype != np.int8:
            return StoredTensor(values.astype(np.float32) / np.float32(multiplier), "float32")
        return StoredTensor(values, "int8", np.full(len(values), 1 / multiplier, np.float32))

    def _configuration(self) -> Mapping[str, object]:
        numbers, _ = self._tensor(CONFIGURATION).read()
        return read_yaml(numbers.tobytes().split(b"\0")[0], f"{self.path}: {CONFIGURATION}")


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


def unpacked(path: Path) -> bytes:
    """Returns the content of a file, unpacked if its name ends in `.gz`.

    Raises:
        CheckpointError: If the file cannot be read, or has more than 8 GiB.
    """
    try:
        with _opened(path) as file:
            content = file.read(_MOST_UNPACKED_BYTES + 1)
    except (OSError, EOFError) as error:
        raise CheckpointError(f"cannot read {path}: {error}") from error
    if len(content) > _MOST_UNPACKED_BYTES:
        raise CheckpointError(f"{path} must have at most {_MOST_UNPACKED_BYTES} bytes when unpacked")
    return content


def read_yaml(content: bytes, where: str, *, as_text: bool = False) -> Mapping[str, object]:
    """Returns a YAML mapping; `as_text` keeps every key and value as text.

    Raises:
        CheckpointError: If the content is not a YAML mapping, or PyYAML is not installed.
    """
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
        raise CheckpointError(f"{where} is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(values, dict):
        raise CheckpointError(f"{where} must hold a YAML mapping")
    return cast(Mapping[str, object], values)


def _opened(path: Path) -> IO[bytes]:
    return cast(IO[bytes], gzip.open(path)) if path.suffix == _GZIP else path.open("rb")


def _is_npz(path: Path) -> bool:
    return path.suffix == ".npz"


def _bin_tensors(path: Path) -> dict[str, _Tensor]:
    """Reads the headers of a `.bin` file, and checks them against its size."""
    content = BytesIO(unpacked(path)) if path.suffix == _GZIP else None

    def opened() -> IO[bytes]:
        return BytesIO(content.getbuffer()) if content else path.open("rb")

    with opened() as file:
        size = file.seek(0, 2)
        file.seek(0)
        version, count = _COUNT.unpack(_exactly(file, _COUNT.size, "its first header"))
        if version != _VERSION:
            raise refusal(path, "version", str(_VERSION), version)
        if count > (most := min(_MOST_TENSORS, size // _HEADER.size)):
            raise refusal(path, "number of tensors", f"at most {most}", count)
        headers = [_HEADER.unpack(_exactly(file, _HEADER.size, "the headers")) for _ in range(count)]
        names = [_name(path, file, length) for length, *_ in headers]
        shapes = [_shape(path, file, name, header[2]) for name, header in zip(names, headers, strict=True)]
        gap = _LENGTH.unpack(_exactly(file, _LENGTH.size, "the gap before the values"))[0]
        start = file.tell() + gap
    tensors: dict[str, _Tensor] = {}
    for name, shape, (_, type_, _, length) in zip(names, shapes, headers, strict=True):
        where = f"{path}: tensor {name!r}"
        if start + length > size:
            raise CheckpointError(f"{where} must end by byte {size}, but ends at {start + length} instead")
        if name in tensors:
            raise CheckpointError(f"{where} is there twice")
        tensors[name] = _bin_tensor(where, opened, start, length, shape, type_)
        start += length
    return tensors


def _bin_tensor(
    where: str, opened: Callable[[], IO[bytes]], start: int, length: int, shape: tuple[int, ...], type_: int
) -> _Tensor:
    count = prod(shape)

    def read() -> tuple[Numbers, float | None]:
        # Types are checked here, so that tensors that no network uses may have any.
        is_quantised = type_ in _QUANTISED_TYPES
        code = _QUANTISED_TYPES.get(type_) or _TYPES.get(type_)
        if code is None:
            known = ", ".join(hex(each) for each in (*_TYPES, *_QUANTISED_TYPES))
            raise CheckpointError(f"{where} must have a type among {known}, but has {hex(type_)} instead")
        dtype = np.dtype(code)
        needed = count * dtype.itemsize + (4 if is_quantised else 0)
        if length < needed:
            raise CheckpointError(f"{where} must have {needed} bytes, but has {length} instead")
        with opened() as file:
            file.seek(start)
            content = _exactly(file, needed, where)
        values = np.frombuffer(content, dtype, count)
        multiplier = float(np.frombuffer(content, "<f4", 1, needed - 4)[0]) if is_quantised else None
        return values, multiplier

    return _Tensor(shape, read)


def _exactly(file: IO[bytes], length: int, what: str) -> bytes:
    content = file.read(length)
    if len(content) != length:
        raise ValueError(f"it ends within {what}")
    return content


def _name(path: Path, file: IO[bytes], length: int) -> str:
    if not 1 < length <= _MOST_NAME_BYTES:
        raise refusal(path, "length of a tensor's name", f"between 2 and {_MOST_NAME_BYTES}", length)
    return _exactly(file, length, "the names")[:-1].decode("utf-8")


def _shape(path: Path, file: IO[bytes], name: str, length: int) -> tuple[int, ...]:
    if length > _MOST_DIMENSIONS:
        raise refusal(f"{path}: tensor {name!r}", "dimensions", f"at most {_MOST_DIMENSIONS}", length)
    shape = struct.unpack(f"<{length}i", _exactly(file, 4 * length, "the shapes"))
    if any(extent < 0 for extent in shape):
        raise refusal(f"{path}: tensor {name!r}", "shape", "of lengths that are not negative", list(shape))
    return shape


def _npz_tensors(path: Path) -> dict[str, _Tensor]:
    """Reads the headers of an `.npz` file."""
    tensors = {}
    with zipfile.ZipFile(path) as archive:
        for member in archive.namelist():
            with archive.open(member) as file:
                shape, is_fortran, dtype = _npy_header(file)
            where = f"{path}: tensor {member.removesuffix('.npy')!r}"
            if is_fortran or dtype.kind not in "fiu":
                kind = f"{dtype} in {'columns' if is_fortran else 'rows'}"
                raise CheckpointError(f"{where} must hold numbers in rows, but holds {kind}")
            tensors[member.removesuffix(".npy")] = _Tensor(shape, _npz_reading(path, member, where))
    return tensors


def _npy_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[np.generic]]:
    version = npy.read_magic(file)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    return cast("tuple[tuple[int, ...], bool, np.dtype[np.generic]]", read(file))


def _npz_reading(path: Path, member: str, where: str) -> Callable[[], tuple[Numbers, float | None]]:
    def read() -> tuple[Numbers, float | None]:
        try:
            with zipfile.ZipFile(path) as archive, archive.open(member) as file:
                return npy.read_array(file, allow_pickle=False).reshape(-1), None
        except (OSError, EOFError, ValueError, MemoryError, zipfile.BadZipFile) as error:
            raise CheckpointError(f"{where} cannot be read: {' '.join(str(error).split())}") from error

    return read
