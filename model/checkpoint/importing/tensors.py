"""The tensors of a foreign model's files, read a few rows at a time. No torch.

State dicts of PyTorch are safetensors files, or pickles, which a process of its own converts to them.
"""

import math
import os
import pickle
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import weakref
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, cast

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError

from model.checkpoint.importing.reader import refusal
from model.checkpoint.manifest import read_errors, read_json
from model.checkpoint.weights import FILE_TYPES, OpenFile, StorageType, StoredTensor, read_header, row_blocks
from model.checkpoint.weights_writer import Read, RowReading
from model.errors import CheckpointError
from model.validators import require_torch

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
_SINGLE, _PICKLE = "model.safetensors", "pytorch_model.bin"
_INDEX = ".index.json"
_TYPES: Mapping[str, str] = {file_type: dtype for dtype, file_type in FILE_TYPES.items() if dtype != "int8"}
_UNPICKLING_SECONDS = 1800
# Names under which training scripts keep a state dict, next to the state of the optimiser and so on.
_WRAPPERS = ("state_dict", "model_state_dict", "model")
_SPARE_BYTES = 2**30


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
        """Reads consecutive rows, as they are stored."""
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


class ForeignTensors(dict[str, ForeignTensor]):
    """The tensors of a model by name; an alias is a name of the same object.

    Attributes:
        path: What messages name: the file, or its folder.
    """

    def __init__(self, path: Path, tensors: Mapping[str, ForeignTensor]) -> None:
        super().__init__(tensors)
        self.path = path

    def __missing__(self, name: str) -> NoReturn:
        raise CheckpointError(f"{self.path}: tensor {name!r} is missing")

    def reshape(self, name: str, *shape: int) -> None:
        """Reads a tensor in another shape of as many numbers."""
        self[name] = replace(self[name], shape=shape)

    def sizes(self, name: str, dimensions: int) -> tuple[int, ...]:
        """Returns the shape of a tensor."""
        shape = self[name].shape
        if len(shape) != dimensions or not all(shape):
            raise refusal(self.path, name, f"of {dimensions} dimensions, none of them 0", list(shape))
        return shape

    def number(self, name: str, default: float) -> float:
        """Returns a tensor with a single number, or the default if the file lacks the tensor."""
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
        """Returns how to read a part, by rows where that is possible."""
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
        """Reads rows of a tensor by their numbers."""
        if self[name].dtype not in _FLOATS:
            raise refusal(self.path, name, f"of type {', '.join(_FLOATS)}", self[name].dtype)
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


class StateDict(ForeignTensors):
    """The tensors of a folder by their own names.

    Attributes:
        files: The files with the weights, to be recorded.
    """

    def __init__(self, folder: Path, file: Path | None = None) -> None:
        """Finds the weights of a folder and checks the headers of their files.

        Args:
            folder: The folder.
            file: The only file with weights, under any name; None finds them by Hugging Face's names.
        """
        self.files, tensors = _weight_files(folder) if file is None else ([file], None)
        if file is not None and file.suffix == ".safetensors":
            tensors = [file]
        owner = None
        if tensors is None:
            owner = TemporaryFolder()
            tensors = [unpickle(path, owner.path) for path in self.files if path.suffix != ".json"]
        super().__init__(
            file or folder, {name: each for path in tensors for name, each in _places(path, owner).items()}
        )


def unpickle(path: Path, folder: Path) -> Path:
    """Writes the tensors of a PyTorch pickle to a safetensors file, in a process of its own.

    The process reads with `weights_only=True`, so that a pickle can name nothing but tensors.

    Raises:
        CheckpointError: If the file holds anything but tensors.
        MissingTorchError: If PyTorch is not installed.
    """
    require_torch(f"reading the pickle {path.name}")
    result = folder / f"{path.stem}.safetensors"
    command = [sys.executable, "-m", __name__, str(path.resolve()), str(result)]
    # The working directory of the parent may be anything; the package is where this module is.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    try:
        done = subprocess.run(  # noqa: S603
            command, env=environment, capture_output=True, text=True, check=False, timeout=_UNPICKLING_SECONDS
        )
    except subprocess.TimeoutExpired as error:
        raise CheckpointError(f"{path} took longer than {_UNPICKLING_SECONDS} s to read") from error
    if done.returncode:
        reason = done.stderr.strip().splitlines()[-1:] or [f"the reader ended with {done.returncode}"]
        raise CheckpointError(f"{path} holds something else than tensors, or is broken: {reason[0][:200]}")
    return result


def _weight_files(folder: Path) -> tuple[list[Path], list[Path] | None]:
    """Returns the files to record, and the safetensors files among them; None where they are pickles."""
    for name, is_safe in ((_SINGLE, True), (_PICKLE, False)):
        single, index = folder / name, folder / f"{name}{_INDEX}"
        if single.is_file():
            return [single], [single] if is_safe else None
        if index.is_file():
            weight_map = read_json(index).get("weight_map")
            named = weight_map.values() if isinstance(weight_map, dict) else [None]
            names = {each for each in named if isinstance(each, str) and each == Path(each).name}
            if names != set(named):
                raise refusal(index, "weight_map", "an object of file names", weight_map)
            parts = [folder / each for each in sorted(names)]
            for part in parts:
                if not part.is_file():
                    raise CheckpointError(f"{part} is missing, but {index.name} names it")
            return [index, *parts], parts if is_safe else None
    others = [
        each.name for each in sorted(folder.iterdir()) if each.suffix in (".h5", ".msgpack", ".pt", ".ot")
    ]
    hint = f" ({others[0]} is of a format that is not read)" if others else ""
    raise CheckpointError(f"{folder} must hold {_SINGLE} or {_PICKLE}{hint}")


def _places(path: Path, owner: object = None) -> dict[str, ForeignTensor]:
    try:
        header, start = read_header(OpenFile(path))
    except (SafetensorError, OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} is not a readable safetensors file: {error}") from error
    tied = cast(dict[str, str], header.pop("__metadata__", {}))
    places = {
        name: ForeignTensor(
            path,
            len(start) + entry["data_offsets"][0],
            tuple(entry["shape"]),
            _TYPES.get(entry["dtype"], entry["dtype"]),
            owner,
        )
        for name, entry in header.items()
    }
    return places | {name: places[first] for name, first in tied.items() if first in places}


def convert_pickle(path: Path, result: Path) -> None:
    """Writes the tensors of a pickle to a safetensors file; `unpickle` runs this in its own process.

    Raises:
        ValueError: If the file holds anything but tensors by name.
    """
    import torch
    from safetensors.torch import save_file

    tensors: dict[str, torch.Tensor] = {}
    places: dict[tuple[object, ...], str] = {}
    tied: dict[str, str] = {}
    for name, tensor in _unpickled(path).items():
        if not isinstance(name, str) or not isinstance(tensor, torch.Tensor):
            raise ValueError(f"{name!r} is no tensor")
        place = (tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride())
        if place in places:
            tied[name] = places[place]
            continue
        places[place] = name
        tensors[name] = tensor.contiguous()
    # The file has each tensor once; its metadata name the tied ones.
    save_file(tensors, result, tied)


def _unpickled(path: Path) -> Mapping[object, object]:
    """Reads a pickle of tensors by name, or the state dict within it."""
    import torch
    from torch.jit._pickle import restore_type_tag

    is_zip = zipfile.is_zipfile(path)
    if is_zip:
        _require_stored(path)
    _limit_memory(path.stat().st_size)
    with torch.serialization.safe_globals([restore_type_tag]):  # LibTorch's mark of a type; returns its value
        try:
            content = torch.load(path, map_location="cpu", weights_only=True, mmap=is_zip)
        except pickle.UnpicklingError as error:
            # The other lines of the message explain how to trust the file.
            named = re.search(r"GLOBAL [\w.]+", str(error))
            raise ValueError(f"it names {named[0]}" if named else str(error).splitlines()[0]) from error
    if not isinstance(content, Mapping):
        raise ValueError(f"it holds a {type(content).__name__} instead of tensors by name")
    wrapped = (content[name] for name in _WRAPPERS if isinstance(content.get(name), Mapping))
    return next(wrapped, content)


def _limit_memory(size: int) -> None:
    """Limits the address space to what is in use, a mapping and two copies of the file, and a spare GiB.

    So a tensor that claims more numbers than the file has cannot take the memory of the machine.
    """
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    limit = pages * resource.getpagesize() + 3 * size + _SPARE_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _require_stored(path: Path) -> None:
    """Refuses compressed numbers, which a mapping would read as they are."""
    with zipfile.ZipFile(path) as archive:
        for entry in archive.infolist():
            if entry.compress_type != zipfile.ZIP_STORED:
                raise ValueError(f"{entry.filename!r} is compressed")


if __name__ == "__main__":
    convert_pickle(Path(sys.argv[1]), Path(sys.argv[2]))
