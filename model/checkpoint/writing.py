"""ⓕ Writes a network's tensors to safetensors files, checked by name, shape, type and finiteness."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from safetensors.torch import save
from torch import Tensor

from model.checkpoint.manifest import write_json
from model.checkpoint.weights import INDEX, WEIGHTS, check_shapes
from model.config import TransformerConfig
from model.errors import CheckpointError
from model.network.parameters import parameter_names

MAX_FILE_BYTES = 15_000_000
STORAGE_DTYPES = (torch.float32, torch.bfloat16, torch.float16)

# safetensors needs less than this in its header for a tensor.
_HEADER_BYTES_PER_TENSOR = 200


def prepare(
    config: TransformerConfig, weights: Mapping[str, Tensor], dtype: torch.dtype | None
) -> dict[str, Tensor]:
    """Returns the tensors to store: on the CPU, contiguous, tied ones once under their first name.

    Args:
        config: Shape of the network.
        weights: The network's `state_dict()`; tied names may be missing.
        dtype: Type to store floating-point values in; None keeps the type of each tensor.

    Raises:
        CheckpointError: If a tensor is missing, unknown, of another shape, or not finite in `dtype` (float16
            holds at most 65504).
    """
    names = parameter_names(config)
    for name in weights.keys() - names.keys():
        raise CheckpointError(f"tensor {name!r} is not part of this architecture")
    stored = {name: weights[first] for name, first in names.items() if name == first and first in weights}
    check_shapes(config, {name: tuple(tensor.shape) for name, tensor in stored.items()}, "the weights")
    ready = {name: tensor.detach().to("cpu", dtype).contiguous() for name, tensor in stored.items()}
    for name, tensor in ready.items():
        _check_tensor(name, tensor)
    return ready


def write_weights(folder: Path, weights: Mapping[str, Tensor], max_file_bytes: int = MAX_FILE_BYTES) -> None:
    """Writes one file, or several of at most `max_file_bytes` and their index.

    A single tensor larger than that has its own file.
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


def _check_tensor(name: str, tensor: Tensor) -> None:
    if tensor.dtype not in STORAGE_DTYPES:
        raise CheckpointError(f"the weights: tensor {name!r} must be floating point, but is {tensor.dtype}")
    if not torch.isfinite(tensor).all():
        raise CheckpointError(f"the weights: tensor {name!r} holds NaN or infinity")


def _shards(weights: Mapping[str, Tensor], max_file_bytes: int) -> Sequence[Sequence[str]]:
    """Returns the names of each file's tensors, in order, each file as full as the limit allows."""
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
