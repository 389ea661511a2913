"""The fused attention and the explicit one that returns its weights give the same logits."""

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from model.network.transformer import Transformer
from tests.model.tiny_networks import ids, tiny_network

POSITIONS = pytest.mark.parametrize("positions", ["sinusoidal", "learned", "relative", "rotary"])
NORMS = pytest.mark.parametrize("norm_position", ["pre", "post"])


def sentences() -> tuple[Tensor, Tensor]:
    source_NS, target_NT = ids(3, 7), ids(3, 11)
    source_NS[1, 4:] = 0
    return source_NS, target_NT


@POSITIONS
@NORMS
@torch.inference_mode()
def test_logits_agree(positions: str, norm_position: str) -> None:
    network = tiny_network(positions=positions, norm_position=norm_position, final_norm=True)
    logits, _ = network.forward_with_attention(*sentences())
    assert_close(logits, network(*sentences()), atol=1e-5, rtol=1e-5)


@POSITIONS
def test_training_without_dropout_computes_the_same(positions: str) -> None:
    """On a CPU training takes the explicit path, evaluation the fused one."""
    rates = {"embedding_dropout": 0.0, "residual_dropout": 0.0}
    network = tiny_network(positions=positions, **rates)
    evaluated = network(*sentences())
    assert_close(network.train()(*sentences()), evaluated, atol=1e-5, rtol=1e-5)


def maps_of(network: Transformer) -> dict[str, list[Tensor]]:
    return vars(network.forward_with_attention(*sentences())[1])


@POSITIONS
@torch.inference_mode()
def test_maps_have_a_row_of_shares_for_every_query(positions: str) -> None:
    network = tiny_network(positions=positions, num_encoder_layers=3)
    maps = maps_of(network)
    shapes = {"encoder": [(3, 2, 7, 7)] * 3, "decoder": [(3, 2, 11, 11)] * 2, "cross": [(3, 2, 11, 7)] * 2}
    assert {kind: [tuple(layer.shape) for layer in layers] for kind, layers in maps.items()} == shapes
    for layer in (*maps["encoder"], *maps["decoder"], *maps["cross"]):
        assert_close(layer.sum(-1), torch.ones(layer.shape[:-1]))
        assert layer.min() >= 0


@POSITIONS
@torch.inference_mode()
def test_maps_are_causal_only_in_the_decoder_and_never_show_padding(positions: str) -> None:
    maps = maps_of(tiny_network(positions=positions))
    for layer in maps["decoder"]:
        assert torch.equal(layer, layer.tril())
    for layer in maps["encoder"]:
        assert (layer[0].triu(1).sum((-1, -2)) > 0).all()
    for layer in (*maps["encoder"], *maps["cross"]):
        assert not layer[1, ..., 4:].any()
        assert layer[0].all()
