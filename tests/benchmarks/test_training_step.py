"""The training benchmark from its command line to its report."""

from pathlib import Path

import pytest

from tests.benchmarks.commands import run


def test_trainers_begin_with_the_same_loss(tmp_path: Path) -> None:
    report = run("training_step", tmp_path, "--shape", "tiny", "--max-tokens", "200", called="small")
    losses = [result["loss"] for result in report["results"]]
    assert len(losses) == 4
    assert losses == pytest.approx([losses[0]] * 4, rel=1e-4)
    assert all(tokens > 0 for result in report["results"] for tokens in result["tokens"])
    assert any(note.startswith("Padding of tiny") for note in report["notes"])
