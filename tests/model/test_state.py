import pytest
import torch
from torch import Tensor

from model.errors import ConfigError, TextTooLongError
from model.state import DecoderState
from model.transformer import Transformer
from tests.model.tiny_networks import ids, tiny_network

SLOTS, LANES, CAPACITY = 3, 2, 4


def started(network: Transformer, capacity: int = CAPACITY) -> DecoderState:
    return network.start(network.encode(ids(SLOTS, 5)), lanes=LANES, capacity=capacity)


@pytest.fixture
def state() -> DecoderState:
    """Two positions written, other numbers in every lane."""
    network = tiny_network()
    with torch.no_grad():
        state = started(network)
        for position in range(2):
            network.decode_step(ids(SLOTS, LANES, seed=position), state)
    return state


def keys(state: DecoderState) -> list[Tensor]:
    """Each layer's keys so far, (N, K, H, position, D)."""
    return [layer.past.keys_NKHCD[..., : state.position, :].clone() for layer in state.layers]


def test_a_new_state_holds_nothing_yet() -> None:
    network = tiny_network()
    state = started(network)
    assert (state.num_slots, state.lanes, state.capacity, state.position) == (SLOTS, LANES, CAPACITY, 0)
    assert state.last_cross_attention_NKS is None
    for layer in state.layers:
        assert layer.past.keys_NKHCD.shape == layer.past.values_NKHCD.shape == (SLOTS, LANES, 2, CAPACITY, 8)
        assert layer.source is not None
        assert layer.source.keys_NHSD.shape == layer.source.values_NHSD.shape == (SLOTS, 2, 5, 8)


def test_reorder_gives_each_lane_the_past_of_its_parent(state: DecoderState) -> None:
    before = keys(state)
    state.reorder(torch.tensor([[1, 0], [0, 0], [1, 1]]))
    for old, new in zip(before, keys(state), strict=True):
        assert torch.equal(new[0], old[0, [1, 0]])
        assert torch.equal(new[1], old[1, [0, 0]])
        assert torch.equal(new[2], old[2, [1, 1]])


def test_reorder_writes_in_place(state: DecoderState) -> None:
    buffers = [layer.past.keys_NKHCD.data_ptr() for layer in state.layers]
    state.reorder(torch.tensor([[1, 0]] * SLOTS))
    assert [layer.past.keys_NKHCD.data_ptr() for layer in state.layers] == buffers


def test_reorder_before_the_first_step_is_harmless() -> None:
    state = started(tiny_network())
    state.reorder(torch.zeros(SLOTS, LANES, dtype=torch.int64))
    assert state.position == 0


def test_keep_compacts_in_the_order_asked_for(state: DecoderState) -> None:
    before, mask_NS = keys(state), state.source_mask_NS
    sources = [layer.source.keys_NHSD for layer in state.layers if layer.source is not None]
    slots = torch.tensor([2, 0])
    state.keep(slots)
    assert (state.num_slots, state.position) == (2, 2)
    assert mask_NS is not None
    assert state.source_mask_NS is not None
    assert torch.equal(state.source_mask_NS, mask_NS[slots])
    for old, new in zip(before, keys(state), strict=True):
        assert torch.equal(new, old[slots])
    for old, layer in zip(sources, state.layers, strict=True):
        assert layer.source is not None
        assert torch.equal(layer.source.keys_NHSD, old[slots])


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "relative", "rotary"])
def test_a_full_state_refuses_another_step(positions: str) -> None:
    network = tiny_network(positions=positions)
    with torch.inference_mode():
        state = started(network, capacity=1)
        network.decode_step(ids(SLOTS, LANES), state)
        with pytest.raises(TextTooLongError, match="limit capacity: 2, at most 1"):
            network.decode_step(ids(SLOTS, LANES), state)


def test_more_capacity_than_learned_positions_is_refused_at_the_start() -> None:
    network = tiny_network(positions="learned", max_positions=6)
    with pytest.raises(TextTooLongError, match="limit max_positions: 7, at most 6"):
        started(network, capacity=7)


def test_an_encoder_decoder_needs_a_memory() -> None:
    with pytest.raises(ConfigError, match="`memory` must be given for an encoder-decoder"):
        tiny_network().start(None, lanes=1, capacity=1, num_slots=1)


def test_a_decoder_alone_needs_to_know_how_many_sentences() -> None:
    with pytest.raises(ConfigError, match="`num_slots` must be given for a decoder alone"):
        tiny_network(num_encoder_layers=0).start(None, lanes=1, capacity=1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_cache_has_the_networks_precision(dtype: torch.dtype) -> None:
    state = started(tiny_network().to(dtype))
    assert {layer.past.keys_NKHCD.dtype for layer in state.layers} == {dtype}
