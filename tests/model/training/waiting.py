"""Waiting for a training process of its own to come somewhere."""

import json
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.model.training.several_processes import Ranks

PATIENCE_SECONDS = 600
"""Long enough for a machine that is busy with something else."""


def saved_step(folder: Path) -> int:
    """The step of a run's saved state; -1 before the first."""
    try:
        return int(json.loads((folder / "state/state.json").read_text())["step"])
    except FileNotFoundError:
        return -1


def wait_for_step(process: "subprocess.Popen[str] | Ranks", folder: Path, step: int) -> None:
    """Until the run's saved state is as far as this; a process that does not come so far is ended."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while saved_step(folder) < step:
        assert process.poll() is None, process.communicate()
        if time.monotonic() > deadline:
            process.kill()
            raise AssertionError(f"{folder} is at step {saved_step(folder)} after {PATIENCE_SECONDS} s")
        time.sleep(0.01)
