from collections.abc import Iterator

import pytest
import torch

from model.decoding.pytorch.batch_state import BatchState
from model.decoding.pytorch.running_batch import SlotLengths
from model.network.slot_tensors import SlotTensors
from tests.model.decoding.slots import empty_state
from tests.model.tiny_networks import tiny_network


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
