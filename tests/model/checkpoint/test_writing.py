"""Weights are stored in the type asked for, and never when they are broken."""

import pytest
import torch

from model.checkpoint.writing import prepare
from model.errors import CheckpointError
from model.network.transformer import Transformer
from model.presets import preset

CONFIG = preset("small", source_vocab_size=50, target_vocab_size=50, model_dim=16, num_heads=2, ffn_dim=32)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_weights_are_stored_in_the_type_asked_for(dtype: torch.dtype) -> None:
    weights = Transformer(CONFIG).state_dict()
    stored = prepare(CONFIG, weights, dtype)
    assert {tensor.dtype for tensor in stored.values()} == {dtype}
    name = "decoder.layers.0.cross.query.weight"
    assert torch.equal(stored[name], weights[name].to(dtype))


def test_what_float16_cannot_hold_is_refused() -> None:
    weights = Transformer(CONFIG).state_dict()
    weights["decoder.norm.weight"] = torch.full((16,), 1e5)
    prepare(CONFIG, weights, torch.bfloat16)
    with pytest.raises(CheckpointError, match=r"'decoder\.norm\.weight' holds NaN or infinity"):
        prepare(CONFIG, weights, torch.float16)


def test_weights_of_another_network_are_refused() -> None:
    weights = Transformer(CONFIG).state_dict()
    with pytest.raises(CheckpointError, match="'novel' is not part of this architecture"):
        prepare(CONFIG, {**weights, "novel": torch.ones(1)}, None)
    del weights["encoder.norm.weight"]
    with pytest.raises(CheckpointError, match=r"'encoder\.norm\.weight' is missing"):
        prepare(CONFIG, weights, None)


def test_integers_are_no_weights() -> None:
    weights = Transformer(CONFIG).state_dict() | {"decoder.norm.weight": torch.ones(16, dtype=torch.int8)}
    with pytest.raises(CheckpointError, match=r"'decoder\.norm\.weight' must be floating point"):
        prepare(CONFIG, weights, None)
