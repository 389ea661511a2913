"""ⓕ Safetensors files → a network's tensors, checked by name, shape, type and finiteness. No torch."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from model.checkpoint.manifest import FileRecord, read_json, require_listed
from model.checkpoint.tensors import StoredTensor, stored_tensors
from model.config import TransformerConfig
from model.errors import CheckpointError
from model.parameters import Shape, parameter_shapes

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"


def read_weights(
    folder: Path, config: TransformerConfig, records: Mapping[str, FileRecord]
) -> dict[str, StoredTensor]:
    """The weights, as the files have them.

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
    weights: dict[str, StoredTensor] = {}
    for file_name in file_names:
        for name, tensor in stored_tensors(folder / file_name):
            if name in weights:
                raise CheckpointError(f"{folder / file_name}: tensor {name!r} is there twice")
            weights[name] = tensor
    check_shapes(config, {name: tensor.shape for name, tensor in weights.items()}, str(folder))
    for name, tensor in weights.items():
        if not tensor.is_finite():
            raise CheckpointError(f"{folder}: tensor {name!r} holds NaN or infinity")
    return weights


def check_shapes(config: TransformerConfig, shapes: Mapping[str, Shape], where: str) -> None:
    """Require exactly the network's parameters, tied ones once.

    Raises:
        CheckpointError: Naming the first tensor that is missing, unknown or of another shape.
    """
    expected = parameter_shapes(config)
    for name, shape in expected.items():
        if name not in shapes:
            raise CheckpointError(f"{where}: tensor {name!r} is missing")
        if shapes[name] != shape:
            shapes_differ = f"must have shape {list(shape)}, but has {list(shapes[name])} instead"
            raise CheckpointError(f"{where}: tensor {name!r} {shapes_differ}")
    for name in shapes.keys() - expected.keys():
        raise CheckpointError(f"{where}: tensor {name!r} is not part of this architecture")


def _weight_files(folder: Path, records: Mapping[str, FileRecord]) -> Sequence[str]:
    if INDEX not in records:
        return [WEIGHTS]
    weight_map = read_json(folder / INDEX).get("weight_map")
    names = weight_map.values() if isinstance(weight_map, dict) else [None]
    if not all(isinstance(name, str) for name in names):
        raise CheckpointError(f"{folder / INDEX} must map each tensor to a file")
    return sorted(set(names))
