"""`kill -9` of the trainer at any point: the resumed run ends with the bits of an undisturbed one."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from model.checkpoint.folder import load_checkpoint
from model.training.run import open_run
from tests.app.remote import ROOT
from tests.faults.killed_run import POINTS, SECTIONS, UNDISTURBED
from tests.model.training.tiny_runs import tiny_run


@pytest.mark.slow
def test_a_killed_run_resumes_to_the_same_bits(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.faults.killed_run", str(tmp_path)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=580)
    assert json.loads(ended.stdout) == dict.fromkeys(POINTS, -signal.SIGKILL)
    for point in POINTS:
        assert_resumes_to_the_same_bits(tmp_path, point)


def assert_resumes_to_the_same_bits(killed: Path, point: str) -> None:
    resumed = open_run(tiny_run(killed / point, **SECTIONS), resume=True)
    assert 0 < resumed.trainer.position.step < 8
    resumed.run()
    found = load_file(resumed.folder.state / "tensors.safetensors")
    undisturbed = load_file(killed / UNDISTURBED / "run/state/tensors.safetensors")
    assert found.keys() == undisturbed.keys()
    assert [name for name, tensor in found.items() if not torch.equal(tensor, undisturbed[name])] == []
    assert load_checkpoint(resumed.folder.checkpoints / "last").provenance["steps"] == 8
    assert list(resumed.folder.root.rglob(".*")) == []
