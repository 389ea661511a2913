"""Where each dropout rate and LayerDrop fall, and that evaluation knows none of them."""

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from model.network.transformer import Transformer
from tests.model.tiny_networks import ids, noise, tiny_network

RATES = ("embedding_dropout", "attention_dropout", "ffn_dropout", "residual_dropout", "layer_drop")


def without_dropout(**overrides: object) -> dict[str, object]:
    return {**dict.fromkeys(RATES, 0.0), **overrides}


@pytest.mark.parametrize("rate", RATES)
def test_each_dropout_rate_takes_effect_in_training_alone(rate: str) -> None:
    network = tiny_network(**without_dropout(**{rate: 0.5}))
    source_NS, target_NT = ids(2, 5), ids(2, 6)
    evaluated = network(source_NS, target_NT)
    assert torch.equal(network(source_NS, target_NT), evaluated)
    assert_close(evaluated, tiny_network(**without_dropout())(source_NS, target_NT))
    torch.manual_seed(1)
    network.train()
    drawn = [network(source_NS, target_NT) for _ in range(4)]
    assert any(not torch.allclose(drawn[0], other) for other in drawn[1:])


def test_training_without_dropout_draws_nothing() -> None:
    network = tiny_network(**without_dropout()).train()
    state = torch.random.get_rng_state()
    network(ids(2, 5), ids(2, 6))
    assert torch.equal(torch.random.get_rng_state(), state)


def dropped_whole(rate: str, **overrides: object) -> Transformer:
    """In training, with one rate next to 1: all that it governs is gone, which shows where it sits."""
    return tiny_network(**without_dropout(**{rate: 1 - 1e-9}, **overrides)).train()


def test_embedding_dropout_falls_on_the_embedding_sum() -> None:
    assert not dropped_whole("embedding_dropout").source_embedding(ids(2, 5)).any()


def test_attention_dropout_falls_on_the_weights() -> None:
    attention = dropped_whole("attention_dropout").encoder.layers[0].attention
    states = noise(2, 5, 16)
    attended = attention.attend(attention.queries(states), *attention.keys_values(states), None)
    assert_close(attended, attention.output.bias.expand(2, 5, 16))


def test_feed_forward_dropout_falls_inside_the_block() -> None:
    block = dropped_whole("ffn_dropout").encoder.layers[0].feed_forward
    assert_close(block(noise(2, 5, 16)), block.output.bias.expand(2, 5, 16))


@pytest.mark.parametrize("rate", ["residual_dropout", "layer_drop"])
def test_residual_dropout_and_layer_drop_leave_the_stream_alone(rate: str) -> None:
    network = dropped_whole(rate, norm_position="pre")
    assert_close(network.encode(ids(2, 5)).states_NSM, network.source_embedding(ids(2, 5)))


def test_layer_drop_skips_layers_at_its_rate() -> None:
    network = tiny_network(
        **without_dropout(layer_drop=0.3, num_encoder_layers=1, num_decoder_layers=1)
    ).train()
    calls: list[Tensor] = []
    network.encoder.layers[0].register_forward_hook(lambda *call: calls.append(call[2]))
    torch.manual_seed(1)
    for _ in range(300):
        network.encode(ids(1, 2))
    assert len(calls) / 300 == pytest.approx(0.7, abs=0.08)
