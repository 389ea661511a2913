"""ⓕ A program: writes the tensors of a PyTorch pickle to a safetensors file.

    python -m model.checkpoint.importing.unpickling FILE RESULT

Only the importer runs it, as a process of its own with limited memory. The pickle is read with
`weights_only=True`.
"""

import resource
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.jit._pickle import restore_type_tag

# Names under which training scripts keep a state dict, next to the state of the optimiser and so on.
_WRAPPERS = ("state_dict", "model_state_dict", "model")
_SPARE_BYTES = 2**30


def main(path: Path, result: Path) -> None:
    """Converts one file.

    Raises:
        ValueError: If the file holds anything but tensors by name, or more numbers than it has bytes.
    """
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
    tensors: dict[str, Tensor] = {}
    places: dict[tuple[object, ...], str] = {}
    tied: dict[str, str] = {}
    total = 0
    for name, tensor in content.items():
        if not isinstance(name, str) or not isinstance(tensor, Tensor):
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
    main(Path(sys.argv[1]), Path(sys.argv[2]))
