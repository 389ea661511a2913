import torch

from model.decoding.pytorch.encoding import pad_rows


def test_rows_are_padded_on_the_right() -> None:
    padded = pad_rows([(4, 5, 6), (7,), ()], 0, torch.device("cpu"))
    assert padded.tolist() == [[4, 5, 6], [7, 0, 0], [0, 0, 0]]
