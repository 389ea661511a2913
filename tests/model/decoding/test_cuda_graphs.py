import pytest
import torch

from model.decoding.cuda_graphs import CudaGraphs


def test_on_a_cpu_the_work_is_just_done() -> None:
    graphs, done = CudaGraphs(torch.device("cpu")), []
    for _ in range(3):
        graphs.run("shape", lambda: done.append(1))
    assert (len(done), len(graphs)) == (3, 0)
    graphs.clear()


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
