"""Benchmarks as users start them, at a size that takes seconds."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def run(name: str, output: Path, *options: str, called: str | None = None) -> dict[str, Any]:
    """The JSON report of a run, `called` something else than the benchmark or not.

    Pinning a process is why it needs its own.
    """
    command = [sys.executable, "-m", f"benchmarks.{name}", "--rounds", "2", "--output", str(output), *options]
    command += ["--name", called] if called else []
    stem = called or name.rpartition(".")[2]
    outcome = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=580, check=False)
    assert outcome.returncode == 0, outcome.stderr
    assert (output / f"{stem}.md").read_text() in outcome.stdout
    report: dict[str, Any] = json.loads((output / f"{stem}.json").read_text())
    assert report["machine"]["processor"]
    for table in report["tables"]:
        assert table["rows"]
        assert len({tuple(row) for row in table["rows"]}) == 1
    return report
