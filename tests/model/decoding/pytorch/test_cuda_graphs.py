"""CUDA graphs on a real GPU, and without one; test_capture_recording.py has the rest, on a stand-in."""

import pytest
import torch

from model.decoding.pytorch.device_use import CudaGraphs, count_graphs


def test_on_a_cpu_the_work_is_just_done() -> None:
    before = count_graphs()
    graphs, done = CudaGraphs(torch.device("cpu")), []
    for _ in range(3):
        graphs.run("shape", lambda: done.append(1))
    graphs.prepare("shape", lambda: done.append(1))
    assert (len(done), len(graphs), count_graphs()) == (3, 0, before)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_gpu_prepared_work_is_tried_out_then_recorded_then_replayed() -> None:
    graphs, device = CudaGraphs(torch.device("cuda")), torch.device("cuda")
    total, calls = torch.zeros(3, device=device), []

    def work() -> None:
        calls.append(1)
        total.add_(1)

    graphs.prepare("shape", work)
    for _ in range(4):
        graphs.run("shape", work)
    assert (len(calls), len(graphs)) == (2, 1)
    assert total.tolist() == [5, 5, 5]
