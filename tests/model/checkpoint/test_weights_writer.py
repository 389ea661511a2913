"""Weights are stored in the type asked for, one at a time, and never when they are broken."""

import weakref
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from model.checkpoint.weights import StorageType, StoredTensor, open_tensors
from model.checkpoint.weights_writer import Read, storable, write_weights
from model.errors import CheckpointError
from model.network.transformer import Transformer
from model.presets import preset

CONFIG = preset("small", source_vocab_size=50, target_vocab_size=50, model_dim=16, num_heads=2, ffn_dim=32)


@pytest.mark.parametrize("storage", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("given", [torch.float32, torch.bfloat16, torch.float16])
def test_weights_are_stored_in_the_type_asked_for(
    tmp_path: Path, given: torch.dtype, storage: StorageType
) -> None:
    weights = {name: tensor.to(given) for name, tensor in Transformer(CONFIG).state_dict().items()}
    name = "decoder.layers.0.cross.query.weight"
    for asked, expected in ((storage, storage), (None, str(given).removeprefix("torch."))):
        write_weights(tmp_path, CONFIG, storable(CONFIG, weights), asked)
        stored = open_tensors(tmp_path / "model.safetensors")
        assert set(stored.dtypes.values()) == {expected}
        assert torch.equal(stored[name].torch(), weights[name].float().to(getattr(torch, expected)))


def test_what_float16_cannot_hold_is_refused(tmp_path: Path) -> None:
    weights = Transformer(CONFIG).state_dict()
    weights["decoder.norm.weight"] = torch.full((16,), 1e5)
    write_weights(tmp_path, CONFIG, storable(CONFIG, weights), "bfloat16")
    with pytest.raises(CheckpointError, match=r"'decoder\.norm\.weight' holds NaN or infinity"):
        write_weights(tmp_path, CONFIG, storable(CONFIG, weights), "float16")


def test_weights_of_another_network_are_refused(tmp_path: Path) -> None:
    weights = Transformer(CONFIG).state_dict()
    with pytest.raises(CheckpointError, match="'novel' is not part of this architecture"):
        storable(CONFIG, {**weights, "novel": torch.ones(1)})
    tensors = storable(CONFIG, weights)
    with pytest.raises(CheckpointError, match="'novel' is not part of this architecture"):
        write_weights(tmp_path, CONFIG, tensors | {"novel": tensors["decoder.norm.weight"]})
    del tensors["encoder.norm.weight"]
    with pytest.raises(CheckpointError, match=r"'encoder\.norm\.weight' is missing"):
        write_weights(tmp_path, CONFIG, tensors)
    assert not list(tmp_path.iterdir())


def test_integers_are_no_weights() -> None:
    weights = Transformer(CONFIG).state_dict() | {"decoder.norm.weight": torch.ones(16, dtype=torch.int8)}
    with pytest.raises(CheckpointError, match=r"'decoder\.norm\.weight' must be floating point"):
        storable(CONFIG, weights)["decoder.norm.weight"]()


def test_a_file_has_the_bytes_that_safetensors_writes(tmp_path: Path) -> None:
    tensors = storable(CONFIG, Transformer(CONFIG).state_dict())
    write_weights(tmp_path, CONFIG, tensors)
    save_file(
        {name: read().torch() for name, read in tensors.items()}, tmp_path / "expected", {"format": "pt"}
    )
    assert (tmp_path / "model.safetensors").read_bytes() == (tmp_path / "expected").read_bytes()


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (StoredTensor(np.ones(15, np.float32), "float32"), r"must have shape \[16\], but has \[15\] instead"),
        (StoredTensor(np.full(16, np.nan, np.float32), "float32"), "holds NaN or infinity"),
        (StoredTensor(np.ones(16), "float32"), "must be float32, but is float64"),
        (
            StoredTensor(np.ones(16, np.int8), "int8", np.ones(16, np.float32)),
            "must have a scale for each row",
        ),
    ],
)
def test_a_tensor_that_does_not_fit_is_not_written(
    tmp_path: Path, tensor: StoredTensor, message: str
) -> None:
    tensors = storable(CONFIG, Transformer(CONFIG).state_dict()) | {"decoder.norm.weight": lambda: tensor}
    with pytest.raises(CheckpointError, match=f"the weights: tensor 'decoder.norm.weight' {message}"):
        write_weights(tmp_path, CONFIG, tensors)


def test_one_tensor_is_in_memory_at_a_time(tmp_path: Path) -> None:
    """Except for those of one small file."""
    living = weakref.WeakSet[StoredTensor]()

    def counted(read: Read) -> Read:
        def run() -> StoredTensor:
            assert not living
            tensor = read()
            living.add(tensor)
            return tensor

        return run

    tensors = storable(CONFIG, Transformer(CONFIG).state_dict())
    write_weights(tmp_path, CONFIG, {name: counted(read) for name, read in tensors.items()}, max_file_bytes=1)
