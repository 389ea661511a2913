from collections.abc import Iterator

import pytest
import torch

from model.decoding.pytorch.batch_state import BatchState
from model.decoding.pytorch.running_batch import SlotLengths
from model.errors import TextTooLongError
from model.network.decoder_state import ZERO_KV_SLOT, DecoderState, SlotTensors
from model.network.transformer import Transformer
from tests.model.decoding.slots import empty_state
from tests.model.tiny_networks import ids, started, tiny_network

SLOTS, WIDTH, CAPACITY = 3, 2, 4


def begun(network: Transformer, capacity: int = CAPACITY) -> DecoderState:
    return started(network, network.encode(ids(SLOTS, 5)), width=WIDTH, capacity=capacity)


@pytest.fixture
def state() -> DecoderState:
    """Two positions written, with other numbers in every hypothesis."""
    network = tiny_network()
    with torch.no_grad():
        state = begun(network)
        for position in range(2):
            network.decode_step(ids(SLOTS, WIDTH, seed=position), state)
    return state


def test_a_sentence_sees_no_source_of_the_one_before_in_its_slot() -> None:
    """A mask would not do: NaN times a weight of 0 is NaN."""
    state = begun(tiny_network())
    target_kv_NKC, source_kv_NS = state.target_kv_NKC[1:2].clone(), state.source_kv_NS[1:2, :2].clone()
    state.assign(torch.tensor([1]), target_kv_NKC, source_kv_NS, torch.ones(1, 2, dtype=torch.bool))
    assert state.source_kv_NS[1].tolist() == [
        *source_kv_NS[0].tolist(),
        ZERO_KV_SLOT,
        ZERO_KV_SLOT,
        ZERO_KV_SLOT,
    ]


def test_reorder_moves_no_key(state: DecoderState) -> None:
    before = [layer.tensors[0].clone() for layer in state.pool.layers]
    state.reorder(torch.tensor([[1, 0]] * SLOTS), 2)
    for layer, old in zip(state.pool.layers, before, strict=True):
        now = layer.tensors[0]
        torch.testing.assert_close(now, old, rtol=0, atol=0, equal_nan=True)  # some were never written


def test_a_frozen_slot_writes_none_of_its_kv_slots(state: DecoderState) -> None:
    """Another sentence may have them."""
    frozen_E = state.target_kv_NKC[1].flatten()
    state.freeze(torch.tensor([1]))
    before = [layer.tensors[0].clone() for layer in state.pool.layers]
    with torch.no_grad():
        tiny_network().decode_step(ids(SLOTS, WIDTH), state)
    for layer, old in zip(state.pool.layers, before, strict=True):
        torch.testing.assert_close(layer.tensors[0][frozen_E], old[frozen_E], rtol=0, atol=0, equal_nan=True)
        assert not torch.equal(layer.tensors[0][state.target_kv_NKC[0]], old[state.target_kv_NKC[0]])


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "relative", "rotary"])
def test_a_full_state_refuses_another_step(positions: str) -> None:
    network = tiny_network(positions=positions)
    with torch.inference_mode():
        state = begun(network, capacity=1)
        network.decode_step(ids(SLOTS, WIDTH), state)
        with pytest.raises(TextTooLongError, match="limit capacity: 2, at most 1"):
            network.decode_step(ids(SLOTS, WIDTH), state)


def test_more_capacity_than_learned_positions_is_refused_at_the_start() -> None:
    network = tiny_network(positions="learned", max_positions=6)
    with pytest.raises(TextTooLongError, match="limit max_positions: 7, at most 6"):
        begun(network, capacity=7)


@pytest.mark.parametrize("rows", [1, 8])
@torch.inference_mode()
def test_many_rows_in_half_precision_step_as_one_does(rows: int) -> None:
    """Many single queries take another path through attention."""
    network = tiny_network().bfloat16()
    source_NS = ids(1, 5).repeat(rows, 1)
    state = started(network, network.encode(source_NS), width=1, capacity=2)
    logits_NKV = network.decode_step(torch.full((rows, 1), 5), state)
    expected = network(source_NS, torch.full((rows, 1), 5))
    assert torch.allclose(logits_NKV, expected, atol=0.05)


class Part(SlotTensors):
    SLOT_TENSORS = ("_names_NX",)

    def __init__(self) -> None:
        self._names_NX = torch.tensor([[1, 1], [2, 2], [3, 3]])


class Example(SlotTensors):
    SLOT_TENSORS = ("ages_N",)

    def __init__(self) -> None:
        self.ages_N, self.part, self.table_VX = torch.tensor([1, 2, 3]), Part(), torch.zeros(2, 2)

    def parts(self) -> Iterator[SlotTensors]:
        yield from (self, self.part)


def test_rows_of_all_parts_move() -> None:
    example = Example()
    example.move(torch.tensor([2]), torch.tensor([0]))
    assert example.ages_N.tolist() == [3, 2, 3]
    assert example.part._names_NX.tolist() == [[3, 3], [2, 2], [3, 3]]


def test_more_rows_keep_the_present_ones_and_fewer_change_nothing() -> None:
    example = Example()
    example.resize(2)
    assert len(example.ages_N) == 3
    example.resize(5)
    assert example.ages_N.tolist() == [1, 2, 3, 0, 0]
    assert (example.part._names_NX.shape, example.table_VX.shape) == ((5, 2), (2, 2))


def _parts() -> list[SlotTensors]:
    network = tiny_network()
    state = empty_state(network, slots=2, width=3, capacity=16)
    return [SlotLengths(2), *BatchState(network, state).parts()]


@pytest.mark.parametrize("part", _parts(), ids=lambda part: type(part).__name__)
def test_every_tensor_with_a_row_per_slot_is_listed(part: SlotTensors) -> None:
    tensors = {name for name, value in vars(part).items() if isinstance(value, torch.Tensor)}
    assert set(part.SLOT_TENSORS) == {name for name in tensors if name.rpartition("_")[2].startswith("N")}
