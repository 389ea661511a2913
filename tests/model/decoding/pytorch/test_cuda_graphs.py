from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import ClassVar

import pytest
import torch

from model.decoding.pytorch.cuda_graphs import CudaGraphs


def test_on_a_cpu_the_work_is_just_done() -> None:
    graphs, done = CudaGraphs(torch.device("cpu")), []
    for _ in range(3):
        graphs.run("shape", lambda: done.append(1))
    assert (len(done), len(graphs)) == (3, 0)
    graphs.clear()


class Recording:
    """Stands for a CUDA graph, which keeps what was done while it was recorded."""

    open: ClassVar[list["Recording"]] = []

    def __init__(self) -> None:
        self.replays = 0

    def replay(self) -> None:
        self.replays += 1

    def pool(self) -> str:
        return "memory of the first"


@contextmanager
def recorded(graph: Recording, pool: object, capture_error_mode: str) -> Iterator[None]:
    Recording.open.append(graph)
    assert pool == (None if len(Recording.open) == 1 else "memory of the first")
    assert capture_error_mode == "thread_local"
    yield


def test_each_shape_is_tried_then_recorded_then_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Recording)
    monkeypatch.setattr(torch.cuda, "graph", recorded)
    monkeypatch.setattr(torch.cuda, "device", nullcontext)
    graphs, done = CudaGraphs(torch.device("cuda")), Counter[str]()
    for shape in ("small", "large", "small", "large", "small"):
        graphs.run(shape, partial(done.update, [shape]))
    assert done == {"small": 2, "large": 2}
    assert [graph.replays for graph in Recording.open] == [2, 1]
    graphs.clear()
    assert len(graphs) == 0


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_gpu_the_second_time_records_and_all_later_ones_replay() -> None:
    graphs, device = CudaGraphs(torch.device("cuda")), torch.device("cuda")
    total, calls = torch.zeros(3, device=device), []

    def work() -> None:
        calls.append(1)
        total.add_(1)

    for _ in range(5):
        graphs.run("shape", work)
    assert (len(calls), len(graphs)) == (2, 1)
    assert total.tolist() == [5, 5, 5]
