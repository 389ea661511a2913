"""Runs `dragoman` in this process, as a shell would."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from model.cli import main

Run = Callable[..., Result]


@pytest.fixture
def run(tiny_checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Call with arguments and standard input; `tiny_checkpoint` is the default checkpoint."""
    monkeypatch.setenv("DRAGOMAN_CHECKPOINT", str(tiny_checkpoint))
    monkeypatch.setenv("DRAGOMAN_DEVICE", "cpu")
    monkeypatch.delenv("DRAGOMAN_TRACEBACK", raising=False)

    def invoke(*arguments: str | Path, stdin: str | bytes = "") -> Result:
        return CliRunner().invoke(main, [str(argument) for argument in arguments], input=stdin)

    return invoke
