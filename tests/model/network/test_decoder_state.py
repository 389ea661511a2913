import pytest
import torch
from torch import Tensor

from model.errors import TextTooLongError
from model.network.decoder_state import FIRST_ENTRY, NOTHING, DecoderState, Extent, KeyValuePool, Span
from model.network.transformer import Transformer
from tests.model.tiny_networks import ids, started, tiny_network

SLOTS, LANES, CAPACITY = 3, 2, 4


def begun(network: Transformer, capacity: int = CAPACITY) -> DecoderState:
    return started(network, network.encode(ids(SLOTS, 5)), lanes=LANES, capacity=capacity)


@pytest.fixture
def state() -> DecoderState:
    """Two positions written, other numbers in every lane."""
    network = tiny_network()
    with torch.no_grad():
        state = begun(network)
        for position in range(2):
            network.decode_step(ids(SLOTS, LANES, seed=position), state)
    return state


def keys(state: DecoderState, length: int = 2) -> list[Tensor]:
    """Each layer's keys so far, (N, K, H, length, D)."""
    places = state.lineage_NKC[..., :length].flatten(0, 1)
    return [layer.read(places)[0].unflatten(0, (-1, LANES)).clone() for layer in state.pool.layers]


def test_a_new_state_holds_nothing_yet() -> None:
    state = begun(tiny_network())
    assert state.positions_N.tolist() == [0] * SLOTS
    assert (state.lineage_NKC == NOTHING).all()
    assert state.exact_extent() == Extent(SLOTS, 1, 5)
    for layer in keys(state):
        assert not layer.any()


def test_no_entry_belongs_to_two_lanes_or_to_nobody() -> None:
    state = begun(tiny_network())
    entries = [*state.own_NKC.flatten().tolist(), *state.source_NS.flatten().tolist()]
    assert len(set(entries)) == len(entries) == state.pool.entries
    assert min(entries) == FIRST_ENTRY


def test_who_begins_in_a_slot_sees_no_source_of_who_was_there_before() -> None:
    """A mask would not do: what is no number stays none, however little weight it has."""
    state = begun(tiny_network())
    own_NKC, source_NS = state.own_NKC[1:2].clone(), state.source_NS[1:2, :2].clone()
    state.seat(torch.tensor([1]), own_NKC, source_NS, torch.ones(1, 2, dtype=torch.bool))
    assert state.source_NS[1].tolist() == [*source_NS[0].tolist(), NOTHING, NOTHING, NOTHING]


def test_reorder_gives_each_lane_the_past_of_its_parent(state: DecoderState) -> None:
    before = keys(state)
    state.reorder(torch.tensor([[1, 0], [0, 0], [1, 1]]), 2)
    for old, new in zip(before, keys(state), strict=True):
        assert torch.equal(new[0], old[0, [1, 0]])
        assert torch.equal(new[1], old[1, [0, 0]])
        assert torch.equal(new[2], old[2, [1, 1]])


def test_reorder_moves_no_key(state: DecoderState) -> None:
    before = [layer.read(Span(FIRST_ENTRY, 1, 39, 39))[0].clone() for layer in state.pool.layers]
    state.reorder(torch.tensor([[1, 0]] * SLOTS), 2)
    for layer, old in zip(state.pool.layers, before, strict=True):
        now = layer.read(Span(FIRST_ENTRY, 1, 39, 39))[0]
        torch.testing.assert_close(now, old, rtol=0, atol=0, equal_nan=True)  # some were never written


def test_lanes_that_continue_one_parent_write_apart(state: DecoderState) -> None:
    state.reorder(torch.zeros(SLOTS, LANES, dtype=torch.int64), 2)
    window = state.window(Extent(SLOTS, 3, 5))
    assert len(window.written_R.unique()) == SLOTS * LANES


def test_a_moved_slot_is_whole(state: DecoderState) -> None:
    before, sources = keys(state), [layer.read(state.source_NS[2:])[0] for layer in state.pool.layers]
    state.move(torch.tensor([2]), torch.tensor([0]))
    for old, new in zip(before, keys(state), strict=True):
        assert torch.equal(new[0], old[2])
    for layer, old in zip(state.pool.layers, sources, strict=True):
        assert torch.equal(layer.read(state.source_NS[:1])[0], old)


def test_a_span_reads_what_a_list_reads() -> None:
    pool = KeyValuePool(1, 10, 2, 3, torch.zeros(1))
    entries = torch.arange(10) + FIRST_ENTRY
    numbers = torch.arange(60.0).view(10, 2, 3)
    pool.layers[0].write(entries, numbers, -numbers)
    listed = pool.layers[0].read(entries.view(2, 5)[:, :3])
    spanned = pool.layers[0].read(Span(FIRST_ENTRY, 2, 5, 3))
    for one, other in zip(listed, spanned, strict=True):
        assert one.shape == (2, 2, 3, 3)
        assert torch.equal(one, other)
    pool.clear(entries[:1])
    assert not pool.layers[0].read(entries[:1, None])[0].any()


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "relative", "rotary"])
def test_a_full_state_refuses_another_step(positions: str) -> None:
    network = tiny_network(positions=positions)
    with torch.inference_mode():
        state = begun(network, capacity=1)
        network.decode_step(ids(SLOTS, LANES), state)
        with pytest.raises(TextTooLongError, match="limit capacity: 2, at most 1"):
            network.decode_step(ids(SLOTS, LANES), state)


def test_more_capacity_than_learned_positions_is_refused_at_the_start() -> None:
    network = tiny_network(positions="learned", max_positions=6)
    with pytest.raises(TextTooLongError, match="limit max_positions: 7, at most 6"):
        begun(network, capacity=7)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_pool_has_the_networks_precision(dtype: torch.dtype) -> None:
    state = begun(tiny_network().to(dtype))
    assert {layer.read(Span(FIRST_ENTRY, 1, 1, 1))[0].dtype for layer in state.pool.layers} == {dtype}


@pytest.mark.parametrize("rows", [1, 8])
@torch.inference_mode()
def test_many_rows_in_half_precision_step_as_one_does(rows: int) -> None:
    """Many single queries take another path through attention."""
    network = tiny_network().bfloat16()
    source_NS = ids(1, 5).repeat(rows, 1)
    state = started(network, network.encode(source_NS), lanes=1, capacity=2)
    logits_NKV = network.decode_step(torch.full((rows, 1), 5), state)
    expected = network(source_NS, torch.full((rows, 1), 5))
    assert torch.allclose(logits_NKV, expected, atol=0.05)
