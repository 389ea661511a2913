import pytest
import torch
from torch.testing import assert_close

from model.errors import ConfigError, TextTooLongError
from tests.model.tiny_networks import TARGET_VOCAB, ids, tiny_network

UNBOUNDED = pytest.mark.parametrize("positions", ["sinusoidal", "relative", "rotary"])


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "relative", "rotary"])
@pytest.mark.parametrize(("source", "target"), [(7, 11), (11, 7), (1, 1)])
@torch.inference_mode()
def test_source_and_target_may_differ_in_length(positions: str, source: int, target: int) -> None:
    logits = tiny_network(positions=positions)(ids(2, source), ids(2, target))
    assert logits.shape == (2, target, TARGET_VOCAB)
    assert logits.isfinite().all()


@torch.inference_mode()
def test_an_encoder_alone() -> None:
    network = tiny_network(num_decoder_layers=0)
    encoder_output = network.encode(ids(2, 7))
    assert encoder_output.states_NSM.shape == (2, 7, 16)
    assert not any(
        name.startswith(("target_", "decoder.", "output.")) for name, _ in network.named_parameters()
    )


@torch.inference_mode()
def test_a_decoder_alone() -> None:
    network = tiny_network(num_encoder_layers=0)
    assert network(None, ids(2, 7)).shape == (2, 7, TARGET_VOCAB)
    assert not any("cross" in name or "source" in name for name, _ in network.named_parameters())


def test_an_encoder_decoder_does_not_silently_ignore_a_missing_source() -> None:
    with pytest.raises(ConfigError, match="`encoder_output` must be given"):
        tiny_network()(None, ids(2, 7))


@torch.inference_mode()
def test_depths_are_chosen_separately() -> None:
    network = tiny_network(num_encoder_layers=5, num_decoder_layers=1)
    assert (len(network.encoder.layers), len(network.decoder.layers)) == (5, 1)


@UNBOUNDED
@torch.inference_mode()
def test_sequences_may_be_longer_than_any_seen_before(positions: str) -> None:
    network = tiny_network(positions=positions, max_positions=16, final_norm=True)
    source_NS, target_NT = ids(1, 100), ids(1, 90)
    long = network(source_NS, target_NT)
    assert long.isfinite().all()
    assert_close(network(source_NS, target_NT[:, :10]), long[:, :10], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("source", "target", "length"), [(17, 5, 17), (5, 30, 30)])
def test_learned_positions_refuse_what_is_longer_and_name_the_limit(
    source: int, target: int, length: int
) -> None:
    network = tiny_network(positions="learned", max_positions=16)
    with pytest.raises(TextTooLongError, match=f"over the limit max_positions: {length}, at most 16"):
        network(ids(1, source), ids(1, target))
    network(ids(1, 16), ids(1, 16))


@pytest.mark.parametrize("scaled", [True, False])
@torch.inference_mode()
def test_token_embeddings_are_scaled_only_when_asked(scaled: bool) -> None:
    network = tiny_network(positions="rotary", scale_embeddings=scaled)
    factor = 4.0 if scaled else 1.0
    assert_close(network.source_embedding(ids(2, 5)), factor * network.source_embedding.tokens(ids(2, 5)))


@torch.inference_mode()
def test_the_norm_after_the_embedding_takes_the_whole_sum() -> None:
    network = tiny_network(positions="learned", embedding_norm=True)
    embedding = network.source_embedding
    added = embedding.tokens(ids(2, 5)) * 4 + embedding.positions.weight[:5]
    assert_close(embedding(ids(2, 5)), embedding.norm(added))


@pytest.mark.parametrize("norm_position", ["pre", "post"])
@torch.inference_mode()
def test_the_final_norm_is_the_last_thing_in_each_stack(norm_position: str) -> None:
    network = tiny_network(final_norm=True, norm_position=norm_position)
    for stack in (network.encoder, network.decoder):
        stack.norm.weight.zero_()
        stack.norm.bias.fill_(3.0)
    encoder_output = network.encode(ids(2, 5))
    assert torch.equal(encoder_output.states_NSM, torch.full((2, 5, 16), 3.0))
    assert torch.equal(network.decode(ids(2, 6), encoder_output), torch.full((2, 6, 16), 3.0))


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "relative", "rotary"])
def test_every_parameter_learns(positions: str) -> None:
    network = tiny_network(
        positions=positions, output_bias=True, final_norm=True, embedding_norm=True
    ).train()
    network(ids(4, 16), ids(4, 16)).square().mean().backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.any(), name
