from pathlib import Path

import pytest
import torch

from model.errors import ConfigError
from model.training.config_sections import RunConfig
from model.training.distributed.hardware import choose_device, tuned_cpu
from model.training.distributed.world import SINGLE_PROCESS
from model.training.run import open_run
from tests.model.training.tiny_runs import tiny_run


def test_attention_kernels_are_chosen_for_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: list[object] = []
    monkeypatch.setattr("model.training.distributed.hardware.choose_attention_kernels", chosen.append)
    found = choose_device(RunConfig(max_steps=1, device="cpu"), SINGLE_PROCESS)
    assert chosen == [found]


def test_a_precision_that_the_processor_lacks_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"`run\.precision` must be float32 or bfloat16 on a CPU"):
        open_run(tiny_run(tmp_path, run={"precision": "float16"}))
    assert not (tmp_path / "run").exists()


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
