"""The cached step gives the logits of the full forward pass, at every position and for every variant."""

from itertools import combinations

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from model.network.decoder_state import StepShape
from model.network.transformer import Transformer
from tests.model.tiny_networks import FAMILY_FEATURES, TARGET_VOCAB, ids, started, tiny_network

WIDTH, LENGTH = 3, 5
POSITIONS = ("sinusoidal", "learned", "relative", "relative_vectors", "rotary")

OTHER_VARIANTS: list[dict[str, object]] = [
    {"final_norm": True, "activation": "gelu"},
    {"norm_position": "pre", "activation": "silu"},
    {"norm_bias": False, "attention_bias": False, "ffn_bias": False},
    {"norm_form": "standard_deviation", "norm_epsilon": 1e-6},
    {"output_bias": True, "vocab_multiple": 64, "tie": "decoder"},
    {"sinusoid_layout": "halves", "scale_embeddings": False},
    {"positions": "learned", "embedding_norm": True},
    {"num_heads": 1, "num_encoder_layers": 3, "num_decoder_layers": 1},
    {"num_heads": 16, "positions": "relative"},
    {"positions": "relative_vectors", "relative_max_distance": 2, "attention_dim": 24},
    *FAMILY_FEATURES,
    *(dict(one, **other) for one, other in combinations(FAMILY_FEATURES, 2)),
]
MEMORIES = pytest.mark.parametrize(
    "memory",
    [*({"positions": name} for name in POSITIONS), {"decoder_memory": "ssru"}],
    ids=lambda memory: "-".join(memory.values()),
)


def padded_sources() -> Tensor:
    source_NS = ids(3, 7)
    source_NS[1, 5:] = 0
    source_NS[2, 1:] = 0
    return source_NS


def full_logits(network: Transformer, source_NS: Tensor | None, target_NKT: Tensor) -> Tensor:
    """(N, K, T, V), every hypothesis a row of its own."""
    width = target_NKT.shape[1]
    source = None if source_NS is None else source_NS.repeat_interleave(width, 0)
    return network(source, target_NKT.flatten(0, 1)).unflatten(0, (-1, width))


def stepped_logits(network: Transformer, source_NS: Tensor | None, target_NKT: Tensor) -> Tensor:
    slots, width, length = target_NKT.shape
    encoder_output = None if source_NS is None else network.encode(source_NS)
    state = started(network, encoder_output, width=width, capacity=length, num_slots=slots)
    steps = [network.decode_step(target_NKT[..., position], state) for position in range(length)]
    assert state.positions_N.tolist() == [length] * slots
    return torch.stack(steps, 2)


def assert_step_is_forward(network: Transformer) -> None:
    target_NKT = ids(3, WIDTH, LENGTH, vocab_size=TARGET_VOCAB)
    source_NS = padded_sources() if network.config.num_encoder_layers else None
    expected = full_logits(network, source_NS, target_NKT)
    assert_close(stepped_logits(network, source_NS, target_NKT), expected, atol=2e-5, rtol=1e-5)


@pytest.mark.parametrize("tie", ["none", "decoder", "all"])
@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("norm_position", ["pre", "post"])
@torch.inference_mode()
def test_step_is_forward(norm_position: str, positions: str, tie: str) -> None:
    assert_step_is_forward(tiny_network(norm_position=norm_position, positions=positions, tie=tie))


@pytest.mark.parametrize("variant", OTHER_VARIANTS, ids=lambda variant: "-".join(variant))
@torch.inference_mode()
def test_step_is_forward_for_other_variants(variant: dict[str, object]) -> None:
    assert_step_is_forward(tiny_network(**variant))


@MEMORIES
@torch.inference_mode()
def test_step_is_forward_for_a_decoder_alone(memory: dict[str, object]) -> None:
    assert_step_is_forward(tiny_network(num_encoder_layers=0, **memory))


@MEMORIES
@torch.inference_mode()
def test_reordered_and_compacted_lanes_go_on_as_if_alone(memory: dict[str, object]) -> None:
    """After each step hypotheses change parents; half way, slot 1 leaves and slot 2 takes its place."""
    network, source_NS = tiny_network(**memory), padded_sources()
    generator = torch.Generator().manual_seed(7)
    tokens_NKT = ids(3, WIDTH, 1, vocab_size=TARGET_VOCAB)
    state = started(network, network.encode(source_NS), width=WIDTH, capacity=LENGTH)
    for position in range(LENGTH):
        logits_NKV = network.decode_step(
            tokens_NKT[..., -1], state, StepShape(len(tokens_NKT), position + 1, 7)
        )
        expected = full_logits(network, source_NS, tokens_NKT)[:, :, -1]
        assert_close(logits_NKV, expected, atol=2e-5, rtol=1e-5)
        if position == LENGTH // 2:
            state.move(torch.tensor([2]), torch.tensor([1]))
            source_NS, tokens_NKT = source_NS[[0, 2]], tokens_NKT[[0, 2]]
        slots = len(tokens_NKT)
        parents_NK = torch.randint(WIDTH, (slots, WIDTH), generator=generator)
        state.reorder(parents_NK, position + 1)
        tokens_NKT = tokens_NKT.gather(1, parents_NK[..., None].expand_as(tokens_NKT))
        new_NK1 = ids(slots, WIDTH, 1, seed=position, vocab_size=TARGET_VOCAB)
        tokens_NKT = torch.cat([tokens_NKT, new_NK1], -1)


@torch.inference_mode()
def test_a_step_leaves_the_cross_attention_of_the_full_pass() -> None:
    network, source_NS = tiny_network(), padded_sources()
    target_NKT = ids(3, WIDTH, LENGTH, vocab_size=TARGET_VOCAB)
    _, maps = network.forward_with_attention(source_NS.repeat_interleave(WIDTH, 0), target_NKT.flatten(0, 1))
    expected_NKTS = maps.cross[-1].mean(1).unflatten(0, (3, WIDTH))
    state = started(network, network.encode(source_NS), width=WIDTH, capacity=LENGTH)
    seen: list[Tensor] = []
    for position in range(LENGTH):
        network.decode_step(target_NKT[..., position], state, attention=seen)
        assert_close(seen[position], expected_NKTS[:, :, position], atol=1e-5, rtol=1e-5)


@MEMORIES
@torch.inference_mode()
def test_slots_that_began_at_different_times_go_on_as_if_alone(memory: dict[str, object]) -> None:
    """Slot 1 begins anew half way, with another source, while slots 0 and 2 go on."""
    network, source_NS = tiny_network(**memory), padded_sources()
    target_NKT = ids(3, WIDTH, LENGTH, vocab_size=TARGET_VOCAB)
    state = started(network, network.encode(source_NS), width=WIDTH, capacity=LENGTH)
    target_kv_NKC, source_kv_NS = state.target_kv_NKC.clone(), state.source_kv_NS.clone()
    begins = torch.tensor([0, 0, 0])
    for now in range(LENGTH):
        if now == LENGTH // 2:
            source_NS[1] = ids(1, 7, seed=9)[0]
            encoder_output, slot = network.encode(source_NS[1:2]), torch.tensor([1])
            state.assign(slot, target_kv_NKC[slot], source_kv_NS[slot], encoder_output.mask_NS)
            network.cache_source(encoder_output, state, slot)
            begins[1] = now
        here = now - begins
        tokens_NK = target_NKT.gather(2, here[:, None, None].expand(-1, WIDTH, 1)).squeeze(2)
        logits_NKV = network.decode_step(tokens_NK, state)
        expected_NKTV = full_logits(network, source_NS, target_NKT)
        for slot_index, position in enumerate(here.tolist()):
            expected = expected_NKTV[slot_index, :, position]
            assert_close(logits_NKV[slot_index], expected, atol=2e-5, rtol=1e-5)
