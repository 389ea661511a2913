"""ⓕ The weights of a Hugging Face folder, tensor by tensor: safetensors files, or pickles by way of them."""

import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open

from model.checkpoint.importing.foreign import constant, read_object, refusal
from model.checkpoint.weights import StorageType, StoredTensor, row_blocks
from model.checkpoint.writing import Read, RowReading
from model.errors import CheckpointError
from model.validators import require_torch

_SINGLE, _PICKLE = "model.safetensors", "pytorch_model.bin"
_INDEX = ".index.json"
_TYPES: Mapping[str, tuple[StorageType, type[np.generic]]] = {
    "F32": ("float32", np.float32),
    "F16": ("float16", np.float16),
    "BF16": ("bfloat16", np.uint16),
}
_LENGTH_BYTES = 8
_UNPICKLING_SECONDS = 1800


@dataclass(frozen=True)
class _Place:
    """Where a file holds a tensor; `owner` keeps a temporary file alive."""

    path: Path
    dtype: str
    shape: tuple[int, ...]
    offset: int
    owner: object = field(default=None, compare=False)

    def rows(self, rows: slice) -> StoredTensor:
        if self.dtype not in _TYPES:
            raise CheckpointError(f"{self.path}: a tensor must be floating point, but is {self.dtype}")
        dtype, kind = _TYPES[self.dtype]
        first, end, _ = rows.indices(self.shape[0] if self.shape else 1)
        width = math.prod(self.shape[1:])
        place = self.offset + first * width * np.dtype(kind).itemsize
        values = np.fromfile(self.path, kind, (end - first) * width, offset=place)
        return StoredTensor(values.reshape(self.shape and (end - first, *self.shape[1:])), dtype)

    @property
    def read(self) -> RowReading:
        return RowReading(self.shape, self.rows)


class _TemporaryFolder:
    """A folder that is removed with the last reference."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="dragoman-import-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


class ForeignWeights:
    """The tensors of a folder by their own names; each is read when it is asked for.

    Attributes:
        files: The files with the weights, to be recorded.
    """

    def __init__(self, folder: Path, file: Path | None = None) -> None:
        """Finds the weights of a folder and checks the headers of their files.

        Args:
            folder: The folder.
            file: The only file with weights, under any name; None finds them by Hugging Face's names.

        Raises:
            CheckpointError: If there are none, or a file is broken.
        """
        self.folder = folder
        self.files, tensors = _weight_files(folder) if file is None else ([file], None)
        if file is not None and file.suffix == ".safetensors":
            tensors = [file]
        self._places: dict[str, _Place] = {}
        owner = None
        if tensors is None:
            owner = _TemporaryFolder()
            tensors = [unpickle(path, owner.path) for path in self.files if path.suffix != ".json"]
        for path in tensors:
            self._places |= _places(path, owner)

    def __contains__(self, name: str) -> bool:
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def shape(self, name: str) -> tuple[int, ...]:
        """Returns the shape of a tensor.

        Raises:
            CheckpointError: If it is missing.
        """
        return self._place(name).shape

    def read(self, name: str) -> RowReading:
        """Returns how to read a tensor.

        Raises:
            CheckpointError: If it is missing.
        """
        return self._place(name).read

    def same(self, one: str, other: str) -> bool:
        """Returns whether two tensors are equal."""
        if one == other or self._place(one) == self._place(other):
            return True
        if self.shape(one) != self.shape(other) or self._place(one).dtype != self._place(other).dtype:
            return False
        left, right = self.read(one), self.read(other)
        return all(
            left.rows(rows).values.tobytes() == right.rows(rows).values.tobytes()
            for rows in row_blocks(left.shape)
        )

    def nonzero(self, name: str) -> Read | None:
        """Returns how to read a tensor; None if it is missing or holds only zeros."""
        if name not in self or not self._place(name).read().values.any():
            return None
        return self.read(name)

    def _place(self, name: str) -> _Place:
        if name not in self._places:
            raise CheckpointError(f"{self.folder}: tensor {name!r} is missing")
        return self._places[name]


def unpickle(path: Path, folder: Path) -> Path:
    """Writes the tensors of a PyTorch pickle to a safetensors file, in a process of its own.

    The process reads with `weights_only=True`, so that a pickle can name nothing but tensors.

    Raises:
        CheckpointError: If the file holds anything but tensors.
        MissingTorchError: If PyTorch is not installed.
    """
    require_torch(f"reading the pickle {path.name}")
    result = folder / f"{path.stem}.safetensors"
    command = [
        sys.executable,
        "-m",
        "model.checkpoint.importing.unpickling",
        str(path.resolve()),
        str(result),
    ]
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


def zeros(*shape: int) -> Read:
    """Returns a reading of zeros."""
    return constant(np.zeros(shape, np.float32))


def _weight_files(folder: Path) -> tuple[list[Path], list[Path] | None]:
    """Returns the files to record, and the safetensors files among them; None where they are pickles."""
    for name, is_safe in ((_SINGLE, True), (_PICKLE, False)):
        single, index = folder / name, folder / f"{name}{_INDEX}"
        if single.is_file():
            return [single], [single] if is_safe else None
        if index.is_file():
            weight_map = read_object(index).get("weight_map")
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


def _places(path: Path, owner: object = None) -> dict[str, _Place]:
    try:
        # The header is untrusted until the library has checked that its offsets are within the file.
        with safe_open(path, framework="numpy"):
            pass
        with path.open("rb") as file:
            length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
            header = json.loads(file.read(length))
    except (SafetensorError, OSError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise CheckpointError(f"{path} is not a readable safetensors file: {reason}") from error
    tied = header.pop("__metadata__", {})
    start = _LENGTH_BYTES + length
    places = {
        name: _Place(path, entry["dtype"], tuple(entry["shape"]), start + entry["data_offsets"][0], owner)
        for name, entry in header.items()
    }
    return places | {name: places[first] for name, first in tied.items() if first in places}
