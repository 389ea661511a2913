"""The GPU session from its command line to its reports, on whatever there is: a CPU will do."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gpu import PARTS
from tests.benchmarks.commands import ROOT


def session(output: Path, *options: str) -> subprocess.CompletedProcess[str]:
    where = ["--device", "cpu", "--quick", "--output", str(output)]
    command = [sys.executable, "-m", "benchmarks.gpu", *where, *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=580, check=False)


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    output = tmp_path_factory.mktemp("gpu")
    outcome = session(output)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    return {name: json.loads((output / f"{name}.json").read_text()) for name in PARTS}


def test_all_runners_give_the_same_translations_for_every_search(reports: dict[str, Any]) -> None:
    checked = [each for each in reports["correctness"]["results"] if each["precision"] == "float32"]
    assert len(checked) == 12
    assert all(result["same"] == result["of"] > 0 for result in checked)


def test_every_part_has_figures(reports: dict[str, Any]) -> None:
    assert all(table["rows"] for report in reports.values() for table in report["tables"])
    assert [step["is_wrong"] for step in reports["training"]["results"]] == [False, False]
    steps = [each for each in reports["roofline"]["results"] if each["kind"] == "step"]
    assert all(step["least_seconds"] > 0 for step in steps)


def test_a_part_without_time_is_named_and_fails_the_session(tmp_path: Path) -> None:
    outcome = session(tmp_path, "--seconds", "1", "--part", "profile", "--part", "smoke")
    assert outcome.returncode == 1
    assert "Failed: profile: ended after 1 s" in outcome.stdout
    assert "Failed: smoke: not started, as the session's time was over" in outcome.stdout
