"""`kill -9` of the trainer, wherever it is: resumed, it gives the bits of a run that nobody disturbed."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from model.checkpoint import load_checkpoint
from model.training.run import Run
from tests.app.remote import ROOT
from tests.faults.killed_run import POINTS, SECTIONS
from tests.model.training.tiny_runs import tiny_run

KILLED = -9


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, torch.Tensor]:
    run = Run(tiny_run(tmp_path_factory.mktemp("undisturbed"), **SECTIONS))
    run.run()
    return load_file(run.folder.state / "tensors.safetensors")


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
def test_what_was_killed_resumes_to_the_same_bits(
    undisturbed: dict[str, torch.Tensor], tmp_path: Path, point: str
) -> None:
    command = [sys.executable, "-m", "tests.faults.killed_run", str(tmp_path), point]
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == KILLED
    resumed = Run(tiny_run(tmp_path, **SECTIONS), resume=True)
    assert 0 < resumed.trainer.position.step < 8
    resumed.run()
    found = load_file(resumed.folder.state / "tensors.safetensors")
    assert found.keys() == undisturbed.keys()
    assert [name for name, tensor in found.items() if not torch.equal(tensor, undisturbed[name])] == []
    assert load_checkpoint(resumed.folder.checkpoints / "last").provenance["steps"] == 8
    assert list(resumed.folder.root.rglob(".*")) == []
