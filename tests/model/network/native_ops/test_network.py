"""A network learns the same with the native operators as without."""

import pytest
import torch
from torch import Tensor

from model.native.operators import Operators
from model.network.native_ops import loading
from model.network.transformer import Transformer
from model.training.optimisation.objective import Smoothing, label_smoothed_loss
from tests.model.tiny_networks import tiny_config

SHAPES: dict[str, dict[str, object]] = {
    "pre-norm": {"norm_position": "pre", "final_norm": True},
    "post-norm": {"norm_position": "post"},
    "rotary": {"positions": "rotary"},
    "relative": {"positions": "relative"},
    "decoder alone": {"num_encoder_layers": 0},
}


def gradients(network: Transformer, dtype: torch.dtype) -> dict[str, Tensor]:
    """Of the loss of one batch with padding, without dropout; and the loss itself."""
    config, generator = network.config, torch.Generator().manual_seed(4)
    source = torch.randint(4, config.source_vocab_size, (5, 9), generator=generator)
    target = torch.randint(4, config.target_vocab_size, (5, 7), generator=generator)
    source[1, 4:], target[2, 3:] = config.pad_id, config.pad_id
    network.zero_grad()
    with torch.autocast("cpu", dtype, enabled=dtype != torch.float32):
        logits = network(source if config.num_encoder_layers else None, target)
        loss = label_smoothed_loss(logits, target, Smoothing(0.1, config.pad_id, config.target_vocab_size))
    (loss.smoothed / 30).backward()
    found = {name: weight.grad for name, weight in network.named_parameters() if weight.grad is not None}
    return {"loss": loss.smoothed.detach(), **found}


def network_of(shape: str, seed: int = 0) -> Transformer:
    torch.manual_seed(seed)
    no_dropout = {"residual_dropout": 0.0, "embedding_dropout": 0.0, "attention_dropout": 0.0}
    return Transformer(tiny_config(model_dim=64, num_heads=2, **no_dropout, **SHAPES[shape]))


def distance(some: dict[str, Tensor], others: dict[str, Tensor]) -> float:
    """Between all gradients, relative to their length."""
    assert some.keys() == others.keys()
    names = others.keys() - {"loss"}
    apart = torch.stack([(some[name] - others[name]).norm() for name in names])
    return float(apart.norm() / torch.stack([others[name].norm() for name in names]).norm())


@pytest.mark.parametrize("shape", SHAPES)
def test_every_weight_gets_the_same_gradient(
    operators: Operators, shape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = network_of(shape)
    native = gradients(network, torch.float32)
    monkeypatch.setattr(loading, "installed_operators", lambda: None)
    reference = gradients(network, torch.float32)
    for name, expected in reference.items():
        close = 1e-4 * float(expected.norm()) + 1e-6
        assert float((native[name] - expected).norm()) <= close, name


@pytest.mark.parametrize("shape", SHAPES)
def test_in_bfloat16_gradients_are_as_near_to_those_in_float32(
    operators: Operators, shape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    networks = [network_of(shape, seed) for seed in range(4)]
    native = [gradients(network, torch.bfloat16) for network in networks]
    monkeypatch.setattr(loading, "installed_operators", lambda: None)
    reference = [gradients(network, torch.bfloat16) for network in networks]
    exact = [gradients(network, torch.float32) for network in networks]
    ours = sum(map(distance, native, exact)) / len(networks)
    theirs = sum(map(distance, reference, exact)) / len(networks)
    assert ours <= 1.15 * theirs
