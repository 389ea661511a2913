from collections.abc import Iterator, Mapping
from typing import Any

import torch

from model.training.data.batches import Batch
from model.training.data.device_batches import DeviceBatches


class Numbered:
    """An endless stream of four batches an epoch, each holding its own number."""

    def __init__(self) -> None:
        self.count = 0
        self.closed = False

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        ids = torch.full((1, 1), self.count)
        epoch, index = divmod(self.count, 4)
        self.count += 1
        return Batch(
            source_NS=ids,
            decoder_input_NT=ids,
            labels_NT=ids,
            num_source_tokens=1,
            num_target_tokens=1,
            epoch=epoch,
            index=index,
        )

    def state_dict(self) -> dict[str, Any]:
        return {"count": self.count}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.count = state["count"]

    def num_batches(self, epoch: int | None = None) -> int:
        return 4

    def close(self) -> None:
        self.closed = True


class Ahead(DeviceBatches):
    """Fetches ahead as on a GPU, without one."""

    def _fetch(self) -> tuple[Batch, dict[str, Any]]:
        return next(self._stream), self._stream.state_dict()


def ahead(stream: Numbered) -> DeviceBatches:
    return Ahead(stream, torch.device("cuda"))


def number(batch: Batch) -> int:
    return int(batch.labels_NT)


def test_the_position_is_what_was_handed_out() -> None:
    batches = DeviceBatches(Numbered(), torch.device("cpu"))
    assert batches.state_dict() == {"count": 0}
    assert [number(next(batches)) for _ in range(3)] == [0, 1, 2]
    assert batches.state_dict() == {"count": 3}


def test_a_batch_fetched_ahead_is_not_counted() -> None:
    stream = Numbered()
    batches = ahead(stream)
    assert [number(next(batches)) for _ in range(3)] == [0, 1, 2]
    assert stream.count == 4
    resumed = ahead(Numbered())
    resumed.load_state_dict(batches.state_dict())
    assert number(next(resumed)) == number(next(batches)) == 3


def test_going_back_drops_what_was_fetched_ahead() -> None:
    batches = ahead(Numbered())
    next(batches)
    position = batches.state_dict()
    next(batches)
    batches.load_state_dict(position)
    assert number(next(batches)) == 1


def test_epochs_are_counted_with_their_share() -> None:
    batches = DeviceBatches(Numbered(), torch.device("cpu"))
    epochs = []
    for _ in range(6):
        next(batches)
        epochs.append(batches.epoch)
    assert epochs == [0.25, 0.5, 0.75, 1.0, 1.25, 1.5]


def test_closing_closes_the_stream() -> None:
    stream = Numbered()
    DeviceBatches(stream, torch.device("cpu")).close()
    assert stream.closed
