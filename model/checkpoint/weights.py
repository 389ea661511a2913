"""ⓕ Tensors of a network ↔ safetensors files, checked by name, shape, type and finiteness."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Size, Tensor

from model.checkpoint.manifest import FileRecord, read_json, require_listed, write_json
from model.config import TransformerConfig
from model.errors import CheckpointError
from model.transformer import Transformer

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
MAX_FILE_BYTES = 15_000_000
STORAGE_DTYPES = (torch.float32, torch.bfloat16, torch.float16)

# safetensors describes a tensor in its header in well under this.
_HEADER_BYTES_PER_TENSOR = 200


def prepare(
    config: TransformerConfig, weights: Mapping[str, Tensor], dtype: torch.dtype | None
) -> dict[str, Tensor]:
    """The tensors to store: on the CPU, contiguous, each once (of tied ones, the first name).

    Args:
        config: Of the network that the weights belong to.
        weights: For instance its `state_dict()`; tied names may be there or not.
        dtype: To store floating-point values in; None keeps what each tensor has.

    Raises:
        CheckpointError: If a tensor is missing, unknown, of another shape, or not finite
            (in `dtype`: float16 holds at most 65504).
    """
    names = parameter_names(empty_network(config))
    for name in weights.keys() - names.keys():
        raise CheckpointError(f"tensor {name!r} is not part of this architecture")
    stored = {name: weights[first] for name, first in names.items() if name == first and first in weights}
    check_shapes(config, {name: tensor.shape for name, tensor in stored.items()}, "the weights")
    ready = {name: tensor.detach().to("cpu", dtype).contiguous() for name, tensor in stored.items()}
    for name, tensor in ready.items():
        check_tensor(name, tensor, "the weights")
    return ready


def write_weights(folder: Path, weights: Mapping[str, Tensor], max_file_bytes: int = MAX_FILE_BYTES) -> None:
    """Write one file, or several of at most `max_file_bytes` and their index.

    A single tensor larger than that has a file of its own.
    """
    shards = _shards(weights, max_file_bytes)
    if len(shards) == 1:
        (folder / WEIGHTS).write_bytes(save(dict(weights), {"format": "pt"}))
        return
    weight_map: dict[str, str] = {}
    for number, names in enumerate(shards, start=1):
        file_name = f"model-{number:05}-of-{len(shards):05}.safetensors"
        (folder / file_name).write_bytes(save({name: weights[name] for name in names}, {"format": "pt"}))
        weight_map |= dict.fromkeys(names, file_name)
    total = sum(tensor.nbytes for tensor in weights.values())
    write_json(folder / INDEX, {"metadata": {"total_size": total}, "weight_map": weight_map})


def read_weights(
    folder: Path, config: TransformerConfig, records: Mapping[str, FileRecord]
) -> dict[str, Tensor]:
    """Map the weights into memory; nothing is copied until it is used.

    Args:
        folder: Checkpoint folder.
        config: What the tensors' names and shapes must agree with.
        records: The files that have been verified; no other is opened.

    Raises:
        CheckpointError: If the tensors are not exactly those of the network, or hold NaN or
            infinity, by file and name.
    """
    file_names = _weight_files(folder, records)
    require_listed(folder, file_names, records)
    weights: dict[str, Tensor] = {}
    for file_name in file_names:
        for name, tensor in _tensors(folder / file_name):
            if name in weights:
                raise CheckpointError(f"{folder / file_name}: tensor {name!r} is there twice")
            weights[name] = tensor
    check_shapes(config, {name: tensor.shape for name, tensor in weights.items()}, str(folder))
    for name, tensor in weights.items():
        check_tensor(name, tensor, str(folder))
    return weights


def check_shapes(config: TransformerConfig, shapes: Mapping[str, Size], where: str) -> None:
    """Require exactly the network's parameters, tied ones once.

    Raises:
        CheckpointError: Naming the first tensor that is missing, unknown or of another shape.
    """
    expected = _parameter_shapes(config)
    for name, shape in expected.items():
        if name not in shapes:
            raise CheckpointError(f"{where}: tensor {name!r} is missing")
        if shapes[name] != shape:
            shapes_differ = f"must have shape {list(shape)}, but has {list(shapes[name])} instead"
            raise CheckpointError(f"{where}: tensor {name!r} {shapes_differ}")
    for name in shapes.keys() - expected.keys():
        raise CheckpointError(f"{where}: tensor {name!r} is not part of this architecture")


def check_tensor(name: str, tensor: Tensor, where: str) -> None:
    """Require a storable type and finite values.

    Raises:
        CheckpointError: Naming the tensor.
    """
    if tensor.dtype not in STORAGE_DTYPES:
        raise CheckpointError(f"{where}: tensor {name!r} must be floating point, but is {tensor.dtype}")
    if not torch.isfinite(tensor).all():
        raise CheckpointError(f"{where}: tensor {name!r} holds NaN or infinity")


def empty_network(config: TransformerConfig) -> Transformer:
    """A network whose parameters have shapes but no memory yet (PyTorch's meta device)."""
    with torch.device("meta"):
        return Transformer(config)


def parameter_names(network: Transformer) -> dict[str, str]:
    """Every name of every parameter → the first name of the same parameter; ties have several."""
    first: dict[int, str] = {}
    parameters = network.named_parameters(remove_duplicate=False)
    return {name: first.setdefault(id(parameter), name) for name, parameter in parameters}


def _parameter_shapes(config: TransformerConfig) -> dict[str, Size]:
    return {name: parameter.shape for name, parameter in empty_network(config).named_parameters()}


def _shards(weights: Mapping[str, Tensor], max_file_bytes: int) -> Sequence[Sequence[str]]:
    """Names by file, in order, each file as full as the limit allows."""
    shards: list[list[str]] = [[]]
    used = 0
    for name, tensor in weights.items():
        size = tensor.nbytes + _HEADER_BYTES_PER_TENSOR
        if shards[-1] and used + size > max_file_bytes:
            shards.append([])
            used = 0
        shards[-1].append(name)
        used += size
    return shards


def _weight_files(folder: Path, records: Mapping[str, FileRecord]) -> Sequence[str]:
    if INDEX not in records:
        return [WEIGHTS]
    weight_map = read_json(folder / INDEX).get("weight_map")
    names = weight_map.values() if isinstance(weight_map, dict) else [None]
    if not all(isinstance(name, str) for name in names):
        raise CheckpointError(f"{folder / INDEX} must map each tensor to a file")
    return sorted(set(names))


def _tensors(path: Path) -> Iterator[tuple[str, Tensor]]:
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            for name in file.keys():  # noqa: SIM118 (not a dictionary)
                yield name, file.get_tensor(name)
    except (SafetensorError, OSError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise CheckpointError(f"{path} is not a readable safetensors file: {reason}") from error
