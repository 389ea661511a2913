"""The GPU session from its command line to its reports, on a CPU."""

import json
import subprocess
import sys
from pathlib import Path

from benchmarks.gpu import PARTS
from tests.benchmarks.commands import ROOT


def session(output: Path, *options: str) -> subprocess.CompletedProcess[str]:
    where = ["--device", "cpu", "--quick", "--output", str(output)]
    command = [sys.executable, "-m", "benchmarks.gpu", *where, *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=580, check=False)


def test_every_part_has_figures(tmp_path: Path) -> None:
    outcome = session(tmp_path)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    reports = {name: json.loads((tmp_path / f"{name}.json").read_text()) for name in PARTS}
    assert all(table["rows"] for report in reports.values() for table in report["tables"])
    assert [step["is_wrong"] for step in reports["training"]["results"]] == [False, False]
    steps = [each for each in reports["roofline"]["results"] if each["kind"] == "step"]
    assert all(step["least_seconds"] > 0 for step in steps)


def test_a_part_without_time_is_named_and_fails_the_session(tmp_path: Path) -> None:
    outcome = session(tmp_path, "--seconds", "1", "--part", "roofline", "--part", "decode")
    assert outcome.returncode == 1
    assert "Failed: roofline: ended after 1 s" in outcome.stdout
    assert "Failed: decode: not started, no time left" in outcome.stdout
