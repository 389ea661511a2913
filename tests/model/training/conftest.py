"""Shared by tests of the trainer: finished runs, each trained once a session."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from model.training.run import Run, open_run
from tests.model.training.tiny_runs import tiny_run

AVERAGED: dict[str, Any] = {
    "optimisation": {"ema_decay": 0.9, "average_last": 2},
    "validation": {"keep_best": 1},
}
"""Sections of a run that averages its weights and keeps a `step-N` checkpoint."""


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A finished run of eight steps; do not write into its folder."""
    run = open_run(tiny_run(tmp_path_factory.mktemp("finished")))
    assert run.run() == "max_steps"
    return run


@pytest.fixture(scope="session")
def averaged_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A finished run with AVERAGED and TensorBoard; do not write into its folder."""
    sections = AVERAGED | {"run": {"tensorboard": True}, "card": {"licence": "cc0-1.0"}}
    run = open_run(tiny_run(tmp_path_factory.mktemp("averaged"), **sections))
    assert run.run() == "max_steps"
    return run


@pytest.fixture
def copied_run(finished_run: Run, tmp_path: Path) -> Path:
    """`tmp_path` with a copy of `finished_run`, which `tiny_run(tmp_path)` resumes."""
    tiny_run(tmp_path)  # writes the same corpora
    shutil.copytree(finished_run.folder.root, tmp_path / "run")
    return tmp_path
