"""A run in pieces ends as a run in one piece does, and is not begun anew afterwards."""

import json
from pathlib import Path

import pytest

from benchmarks import limited_run
from benchmarks.limited_run import Deadline, train
from model.errors import ConfigError
from tests.model.training.tiny_runs import tiny_run


def test_a_run_in_pieces_is_the_run_in_one_piece(tmp_path: Path) -> None:
    whole = tiny_run(tmp_path, run={"folder": str(tmp_path / "whole")})
    pieces = tiny_run(tmp_path, run={"folder": str(tmp_path / "pieces")})
    past, far = Deadline(0.0), Deadline.after(0)
    assert past.is_past
    assert not far.is_past
    assert train(pieces, past) is None
    assert train(pieces, past) is None
    ending = train(pieces, far)
    expected = train(whole, far)
    assert ending is not None
    assert expected is not None
    assert (ending.reason, ending.step, ending.tokens) == (expected.reason, expected.step, expected.tokens)
    assert (ending.reason, ending.step) == ("max_steps", 8)
    weights = [
        (Path(each.run.folder) / "checkpoints" / "last" / "model.safetensors").read_bytes()
        for each in (whole, pieces)
    ]
    assert weights[0] == weights[1]


def test_what_has_ended_is_not_loaded_again_unless_it_may_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tiny_run(tmp_path, run={"max_steps": 4})
    ending = train(config, Deadline.after(0))
    with monkeypatch.context() as patched:
        patched.setattr(limited_run, "Run", None)
        assert train(config, Deadline.after(0)) == ending
    longer = train(tiny_run(tmp_path, run={"max_steps": 6}), Deadline.after(0))
    assert longer is not None
    assert longer.step == 6
    with pytest.raises(ConfigError, match=r"`run\.seed` must be 5, as when the run began"):
        train(tiny_run(tmp_path, run={"max_steps": 6, "seed": 6}), Deadline.after(0))
    written = json.loads((tmp_path / "run" / "ended.json").read_text())
    assert written["ending"]["step"] == 6


def test_only_the_end_of_a_run_has_a_report(tmp_path: Path) -> None:
    config = tiny_run(tmp_path, run={"max_steps": 2, "plots": True})
    page = tmp_path / "run" / "report" / "index.html"
    assert train(config, Deadline(0.0)) is None
    assert not page.exists()
    assert train(config, Deadline.after(0)) is not None
    assert page.exists()
