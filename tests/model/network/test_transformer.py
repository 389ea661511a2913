import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from model.errors import ConfigError, TextTooLongError
from tests.model.decoding.networks import BOS, EOS, PAD, VOCAB, lively_network, request, sentences
from tests.model.decoding.reference import ReferenceDecoder
from tests.model.tiny_networks import TARGET_VOCAB, ids, started, tiny_network

UNBOUNDED = pytest.mark.parametrize("positions", ["sinusoidal", "relative", "rotary"])


@torch.inference_mode()
def test_an_encoder_alone() -> None:
    network = tiny_network(num_decoder_layers=0)
    encoder_output = network.encode(ids(2, 7))
    assert encoder_output.states_NSM.shape == (2, 7, 16)
    assert torch.equal(network(ids(2, 7)), encoder_output.states_NSM)
    assert not any(
        name.startswith(("target_", "decoder.", "output.")) for name, _ in network.named_parameters()
    )


@torch.inference_mode()
def test_a_decoder_alone() -> None:
    network = tiny_network(num_encoder_layers=0)
    assert network(None, ids(2, 7)).shape == (2, 7, TARGET_VOCAB)
    assert not any("cross" in name or "source" in name for name, _ in network.named_parameters())


def test_an_encoder_decoder_does_not_silently_ignore_a_missing_source_or_target() -> None:
    with pytest.raises(ConfigError, match=r"`encoder_output` must be given .*, but is missing"):
        tiny_network()(None, ids(2, 7))
    with pytest.raises(ConfigError, match=r"`target_NT` must be given .*, but is missing"):
        tiny_network()(ids(2, 7))
    with pytest.raises(ConfigError, match="`target_NT` must be None"):
        tiny_network(num_decoder_layers=0)(ids(2, 7), ids(2, 7))


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


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "relative", "rotary"])
def test_every_parameter_learns(positions: str) -> None:
    network = tiny_network(
        positions=positions, output_bias=True, final_norm=True, embedding_norm=True
    ).train()
    network(ids(4, 16), ids(4, 16)).square().mean().backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.any(), name


def test_generated_tokens_with_top_k_1_are_the_greedy_ones() -> None:
    network = lively_network()
    sources = sentences(6, 6, 6, 6)
    found = network.generate(torch.tensor(sources), max_new_tokens=9, temperature=0.3, top_k=1)
    for row, source in zip(found.tolist(), sources, strict=True):
        (best,) = ReferenceDecoder(network).decode(request(source, strategy="greedy", max_length=9))
        ended = [*best.token_ids, EOS][:9]
        assert row == [*ended, *[PAD] * (len(row) - len(ended))]


def test_generated_tokens_follow_seed_temperature_and_top_k() -> None:
    network, source_NS = lively_network(), torch.tensor(sentences(5) * 200)

    def generated(seed: int, **options: float) -> Tensor:
        generator = torch.Generator().manual_seed(seed)
        return network.generate(source_NS, max_new_tokens=1, generator=generator, **options)  # type: ignore[arg-type]

    assert torch.equal(generated(1), generated(1))
    assert not torch.equal(generated(1), generated(2))
    assert len(generated(1, temperature=0.01).unique()) == 1
    assert len(generated(1, temperature=100.0, top_k=3).unique()) == 3
    assert set(generated(1, temperature=100.0).unique().tolist()) == set(range(VOCAB)) - {PAD, BOS}


def test_a_decoder_alone_continues_a_prompt() -> None:
    network, prompt_NT = lively_network(num_encoder_layers=0), torch.tensor([[5, 6], [7, 8]])
    found = network.generate(None, prompt_NT, max_new_tokens=3, top_k=1)
    start = torch.full((2, 1), network.config.decoder_start_id)
    logits = network(None, torch.cat([start, prompt_NT], 1))[:, -1]
    logits[:, network.config.never_produced()] = float("-inf")
    assert torch.equal(found[:, 0], logits.argmax(-1))


@pytest.mark.parametrize(
    ("field", "options"),
    [
        ("max_new_tokens", {"max_new_tokens": 0}),
        ("temperature", {"temperature": 0.0}),
        ("top_k", {"top_k": -1}),
    ],
)
def test_values_that_cannot_generate_are_refused(field: str, options: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=f"`{field}` must be"):
        tiny_network().generate(ids(1, 3), **{"max_new_tokens": 3, **options})  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="`prompt_NT` must be given"):
        tiny_network(num_encoder_layers=0).generate(None, max_new_tokens=3)


@pytest.mark.parametrize("positions", ["learned", "sinusoidal"])
@torch.inference_mode()
def test_positions_cropped_to_a_shorter_length(positions: str) -> None:
    network = tiny_network(positions=positions, tie="all", max_positions=16)
    shorter = network.with_max_positions(9)
    assert shorter.config.max_positions == 9
    assert shorter.output.weight is shorter.source_embedding.tokens.weight
    assert torch.equal(shorter(ids(2, 9), ids(2, 9)), network(ids(2, 9), ids(2, 9)))
    if positions == "learned":
        with pytest.raises(TextTooLongError, match="at most 9"):
            shorter(ids(2, 10), ids(2, 9))
    network(ids(2, 16), ids(2, 16))
    with pytest.raises(ConfigError, match="`max_positions` must be an integer between 1 and 16"):
        network.with_max_positions(17)


@pytest.mark.parametrize("variant", [{}, {"attention_bias": False}, {"decoder_memory": "ssru"}], ids=repr)
def test_joined_projections_change_neither_weights_nor_steps(variant: dict[str, object]) -> None:
    network = tiny_network(**variant)
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}

    def step() -> torch.Tensor:
        state = started(network, network.encode(ids(2, 5)), width=3, capacity=4)
        return network.decode_step(ids(2, 3), state)

    with torch.no_grad():
        expected = step()
        network.decoder.join_projections()
        torch.testing.assert_close(step(), expected)
    after = network.state_dict()
    assert after.keys() == before.keys()
    assert all(torch.equal(after[name], tensor) for name, tensor in before.items())
    places = {layer.cross.key_value.weight.untyped_storage().data_ptr() for layer in network.decoder.layers}
    assert len(places) == 1
