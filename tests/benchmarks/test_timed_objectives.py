"""Objectives in seconds: what a run measures, and when several runs meet an objective."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks import timed_objectives
from benchmarks.load.objectives import Level


def levels(*measured: float) -> timed_objectives.Objective:
    """An objective of at most 1 s that measures these values, one a run."""
    remaining = iter(measured)
    return lambda: iter([Level(objective="the end", measured=next(remaining), limit=1, unit="s")])


@pytest.mark.parametrize(("last", "verdict", "status"), [(1.0, "met", 0), (1.1, "MISSED", 1)])
def test_an_objective_is_met_if_every_run_meets_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last: float, verdict: str, status: int
) -> None:
    monkeypatch.setattr(timed_objectives, "OBJECTIVES", {"end": levels(0.5, 0.25, last)})
    outcome = CliRunner().invoke(timed_objectives.main, ["--output", str(tmp_path)])
    row = f"| the end | at most 1 s | 0.5 s | 0.25 s | {last:g} s | {verdict} |"
    assert row in outcome.output
    assert row in (tmp_path / "objectives.md").read_text()
    assert outcome.exit_code == status


def test_a_second_signal_is_measured_while_the_service_drains() -> None:
    (level,) = timed_objectives.OBJECTIVES["second-signal"]()
    assert 0 < level.measured < 60
