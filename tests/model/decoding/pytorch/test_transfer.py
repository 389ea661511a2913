import pytest
import torch

from model.decoding.pytorch.device_memory import to_device


def test_numbers_and_tensors_arrive_as_they_are() -> None:
    cpu = torch.device("cpu")
    assert to_device([1, 2**40], cpu).tolist() == [1, 2**40]
    assert to_device([], cpu).dtype == torch.int64
    assert to_device(torch.tensor([0.5]), cpu).tolist() == [0.5]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_gets_what_the_host_has_and_what_it_has_itself() -> None:
    gpu = torch.device("cuda")
    there = to_device([1, 2], gpu)
    assert there.is_cuda
    assert to_device(there, gpu).tolist() == [1, 2]
