import math

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from model.network.layers import meta_init
from model.network.transformer import Transformer
from tests.model.tiny_networks import ids, noise, tiny_config, tiny_network

WIDTH, INNER = 64, 256
RATES = ("embedding_dropout", "attention_dropout", "ffn_dropout", "residual_dropout", "layer_drop")


@pytest.fixture(autouse=True)
def _fixed_seed() -> None:
    torch.manual_seed(5)


def network(**overrides: object) -> Transformer:
    sizes = {"model_dim": WIDTH, "ffn_dim": INNER, "source_vocab_size": 400, "target_vocab_size": 300}
    return Transformer(tiny_config(**{**sizes, **overrides}))


def xavier_deviation(weight: Tensor) -> float:
    return math.sqrt(2 / sum(weight.shape))


def assert_deviation(weight: Tensor, expected: float) -> None:
    assert weight.std().item() == pytest.approx(expected, rel=0.06)
    assert abs(weight.mean().item()) < 0.1 * expected


def test_xavier_gives_every_projection_its_own_bound() -> None:
    ours = network(initialisation="xavier")
    for layer in (*ours.encoder.layers, *ours.decoder.layers):
        keys, values = layer.attention.key_value.weight.chunk(2)
        block = layer.feed_forward
        for weight in (keys, values, layer.attention.query.weight, block.input.weight, block.output.weight):
            assert_deviation(weight, xavier_deviation(weight))
            assert weight.abs().max() <= xavier_deviation(weight) * math.sqrt(3)  # it is uniform


def test_xavier_draws_tokens_so_that_scaling_gives_them_unit_variance() -> None:
    ours = network(initialisation="xavier")
    for embedding in (ours.source_embedding, ours.target_embedding):
        assert_deviation(embedding.tokens.weight * math.sqrt(WIDTH), 1.0)


@pytest.mark.parametrize(("encoder", "decoder"), [(2, 2), (4, 1), (0, 3)])
def test_normal_shrinks_what_is_written_to_the_residual_stream(encoder: int, decoder: int) -> None:
    ours = network(initialisation="normal", num_encoder_layers=encoder, num_decoder_layers=decoder)
    written = 0.02 / math.sqrt(2 * (encoder + decoder))
    for layer in ours.decoder.layers:
        attentions = [layer.attention, layer.cross] if encoder else [layer.attention]
        for attention in attentions:
            assert_deviation(attention.output.weight, written)
            assert_deviation(attention.query.weight, 0.02)
            assert_deviation(attention.key_value.weight, 0.02)
        assert_deviation(layer.feed_forward.output.weight, written)
        assert_deviation(layer.feed_forward.input.weight, 0.02)


def test_normal_draws_embeddings_and_the_output_with_the_plain_deviation() -> None:
    ours = network(initialisation="normal", positions="learned", max_positions=128)
    for weight in (
        ours.source_embedding.tokens.weight,
        ours.target_embedding.tokens.weight,
        ours.target_embedding.positions.weight,
        ours.output.weight,
    ):
        assert_deviation(weight, 0.02)


@pytest.mark.parametrize("initialisation", ["xavier", "normal"])
def test_biases_start_at_0_and_norms_at_the_identity(initialisation: str) -> None:
    ours = network(initialisation=initialisation, output_bias=True, final_norm=True, embedding_norm=True)
    for name, parameter in ours.named_parameters():
        if name.endswith("bias"):
            assert not parameter.any()
        elif "norm" in name:
            assert torch.equal(parameter, torch.ones_like(parameter))


@pytest.mark.parametrize("initialisation", ["xavier", "normal"])
def test_a_seed_decides_everything(initialisation: str) -> None:
    drawn = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        drawn.append(nn.utils.parameters_to_vector(network(initialisation=initialisation).parameters()))
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])


def test_it_has_the_shape_of_a_real_one() -> None:
    with meta_init():
        network = Transformer(tiny_config())
    shapes = {name: value.shape for name, value in network.state_dict().items()}
    assert shapes == {name: value.shape for name, value in Transformer(tiny_config()).state_dict().items()}
    assert {parameter.device.type for parameter in network.parameters()} == {"meta"}


@pytest.mark.parametrize("draw", [nn.init.normal_, nn.init.uniform_, nn.init.kaiming_uniform_])
def test_nothing_is_drawn_inside_and_everything_outside(draw: object) -> None:
    weight = torch.full((2, 2), 7.0)
    with meta_init():
        assert draw(tensor=weight) is weight  # type: ignore[operator]
    assert weight.eq(7).all()
    draw(weight)  # type: ignore[operator]
    assert not weight.eq(7).all()


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
