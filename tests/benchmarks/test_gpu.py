"""The GPU benchmark from its command line to its report, on whatever there is: a CPU will do."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.commands import ROOT


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    output = tmp_path_factory.mktemp("gpu")
    options = ["--device", "cpu", "--quick", "--precision", "float32", "--output", str(output)]
    command = [sys.executable, "-m", "benchmarks.gpu", *options]
    outcome = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=580, check=False)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    assert (output / "gpu.md").read_text() in outcome.stdout
    found: dict[str, Any] = json.loads((output / "gpu.json").read_text())
    return found


def of_kind(report: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [result for result in report["results"] if result["kind"] == kind]


def test_all_runners_give_the_same_translations_for_every_search(report: dict[str, Any]) -> None:
    checked = of_kind(report, "correctness")
    assert len(checked) == 12
    assert all(result["same"] == result["of"] > 0 for result in checked)


def test_every_part_has_figures(report: dict[str, Any]) -> None:
    assert [table["title"] for table in report["tables"]] == [
        "Correctness",
        "Decode loop",
        "One sentence, end to end",
        "Training step, 300 tokens",
        "Probe of a goal",
        "Batches of 4",
        "Profile of a step, 8 sentences",
    ]
    loops = of_kind(report, "loop")
    assert {(loop["runner"], loop["search"]) for loop in loops} == {
        ("static", "greedy"),
        ("static", "beam 4"),
        ("exact", "greedy"),
    }
    assert all(loop["tokens_per_second"] > 0 for loop in loops)
    assert {result["runner"] for result in of_kind(report, "latency")} == {"static", "exact"}
    assert all(result["seconds"] > 0 for result in of_kind(report, "race"))
    assert [step["is_wrong"] for step in of_kind(report, "training step")] == [False, False]
    (probe,) = of_kind(report, "probe")
    assert probe["steps"] == 20
    assert probe["share_in_steps"] > 0


def test_a_part_that_fails_is_told_and_stops_no_other(tmp_path: Path) -> None:
    options = ["--device", "cpu", "--quick", "--seconds", "0", "--part", "latency"]
    command = [sys.executable, "-m", "benchmarks.gpu", *options, "--output", str(tmp_path)]
    outcome = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=580, check=False)
    assert outcome.returncode == 1
    assert "Not measured for want of time: latency." in outcome.stdout
