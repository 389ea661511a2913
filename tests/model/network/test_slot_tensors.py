import torch

from model.network.slot_tensors import Columns


class Example(Columns):
    def __init__(self) -> None:
        self.ages_N = torch.tensor([1, 2, 3])
        self._names_NX = torch.tensor([[1, 1], [2, 2], [3, 3]])
        self.table_VX = torch.zeros(2, 2)
        self.count = 3


def test_columns_are_the_tensors_with_a_row_a_slot() -> None:
    assert [name for name, _ in Example().columns()] == ["ages_N", "_names_NX"]


def test_rows_move_in_all_columns() -> None:
    example = Example()
    example.move(torch.tensor([2]), torch.tensor([0]))
    assert example.ages_N.tolist() == [3, 2, 3]
    assert example._names_NX.tolist() == [[3, 3], [2, 2], [3, 3]]


def test_more_rows_keep_those_there_are_and_fewer_change_nothing() -> None:
    example = Example()
    example.resize(2)
    assert len(example.ages_N) == 3
    example.resize(5)
    assert example.ages_N.tolist() == [1, 2, 3, 0, 0]
    assert example._names_NX.shape == (5, 2)
    assert example.table_VX.shape == (2, 2)
