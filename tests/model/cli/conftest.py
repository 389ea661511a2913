"""Runs `dragoman` in this process, as a shell would."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from model.cli import main
from tests.conftest import PHRASES

Run = Callable[..., Result]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """PHRASES, English and French in two columns."""
    path = tmp_path / "en-fr.tsv"
    path.write_text("".join(f"{en}\t{fr}\n" for en, fr in PHRASES), encoding="utf-8")
    return path


@pytest.fixture
def run(tiny_checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Call with arguments and standard input; `tiny_checkpoint` is the default checkpoint."""
    monkeypatch.setenv("DRAGOMAN_CHECKPOINT", str(tiny_checkpoint))
    monkeypatch.setenv("DRAGOMAN_DEVICE", "cpu")
    monkeypatch.delenv("DRAGOMAN_TRACEBACK", raising=False)

    def invoke(*arguments: str | Path, stdin: str | bytes = "") -> Result:
        return CliRunner().invoke(main, [str(argument) for argument in arguments], input=stdin)

    return invoke
