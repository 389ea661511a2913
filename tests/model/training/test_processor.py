import pytest
import torch

from model.training.device import tuned_cpu

TINY = torch.finfo(torch.float32).tiny


def halved() -> float:
    """Half of the smallest normal number: a denormal, unless those are flushed to zero."""
    return float(torch.tensor([TINY]) / 2)


@pytest.mark.skipif(not torch.set_flush_denormal(False), reason="this processor cannot flush denormals")
def test_denormals_are_flushed_inside_only() -> None:
    assert halved() > 0
    with tuned_cpu(0):
        assert halved() == 0
    assert halved() > 0


def test_threads_are_as_before_afterwards() -> None:
    before = torch.get_num_threads()
    with tuned_cpu(before + 1):
        assert torch.get_num_threads() == before + 1
    assert torch.get_num_threads() == before
