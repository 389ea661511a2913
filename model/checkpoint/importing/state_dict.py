"""State dicts of PyTorch: safetensors files, or pickles, which a process of its own converts to them."""

import os
import resource
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from safetensors import SafetensorError

from model.checkpoint.importing.reader import refusal
from model.checkpoint.importing.tensors import ForeignTensor, ForeignTensors, TemporaryFolder
from model.checkpoint.manifest import read_json
from model.checkpoint.weights import FILE_TYPES, OpenFile, read_header
from model.errors import CheckpointError
from model.validators import require_torch

_SINGLE, _PICKLE = "model.safetensors", "pytorch_model.bin"
_INDEX = ".index.json"
_TYPES: Mapping[str, str] = {file_type: dtype for dtype, file_type in FILE_TYPES.items() if dtype != "int8"}
_UNPICKLING_SECONDS = 1800
# Names under which training scripts keep a state dict, next to the state of the optimiser and so on.
_WRAPPERS = ("state_dict", "model_state_dict", "model")
_SPARE_BYTES = 2**30


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

        Raises:
            CheckpointError: If there are none, or a file is broken.
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
    """Writes the tensors of a pickle to a safetensors file; `unpickle` lets a process of its own run this.

    Raises:
        ValueError: If the file holds anything but tensors by name, or more numbers than it has bytes.
    """
    import torch
    from safetensors.torch import save_file
    from torch.jit._pickle import restore_type_tag

    is_zip = zipfile.is_zipfile(path)
    if is_zip:
        _require_stored(path)
    _limit_memory(path.stat().st_size)
    with torch.serialization.safe_globals([restore_type_tag]):  # LibTorch's mark of a type; returns its value
        content = torch.load(path, map_location="cpu", weights_only=True, mmap=is_zip)
    if isinstance(content, Mapping):
        content = next(
            (content[name] for name in _WRAPPERS if isinstance(content.get(name), Mapping)), content
        )
    if not isinstance(content, Mapping):
        raise ValueError(f"it holds a {type(content).__name__} instead of tensors by name")
    tensors: dict[str, torch.Tensor] = {}
    places: dict[tuple[object, ...], str] = {}
    tied: dict[str, str] = {}
    total = 0
    for name, tensor in content.items():
        if not isinstance(name, str) or not isinstance(tensor, torch.Tensor):
            raise ValueError(f"{name!r} is no tensor")
        place = (tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride())
        if place in places:
            tied[name] = places[place]
            continue
        places[place] = name
        # A view may claim more numbers than its storage has, such as a tensor expanded to any size.
        total += tensor.numel() * tensor.element_size()
        if total > path.stat().st_size:
            raise ValueError(f"{name!r} claims more numbers than the file has")
        tensors[name] = tensor.contiguous()
    # The file has each tensor once; its metadata name the tied ones.
    save_file(tensors, result, tied)


def _limit_memory(size: int) -> None:
    """Limits the address space to what is in use, a mapping and two copies of the file, and a spare GiB."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    limit = pages * resource.getpagesize() + 3 * size + _SPARE_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _require_stored(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        for entry in archive.infolist():
            if entry.compress_type != zipfile.ZIP_STORED:
                raise ValueError(f"{entry.filename!r} is compressed")


if __name__ == "__main__":
    convert_pickle(Path(sys.argv[1]), Path(sys.argv[2]))
