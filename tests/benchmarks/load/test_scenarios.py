"""Scenarios of simulated people, as users start them: in a process of their own, which locust changes."""

import ast
import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from benchmarks.load.__main__ import SCENARIOS
from tests.app.remote import ROOT, Live

pytestmark = pytest.mark.skipif(
    find_spec("locust") is None, reason="locust is not installed; the extra `load` brings it"
)


@pytest.fixture
def output(tmp_path: Path) -> Path:
    """Where reports go."""
    return tmp_path / "load"


def run(live: Live, output: Path, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks.load", f"--url={live.url}", f"--output={output}", *options]
    return subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_levels_that_are_met_end_with_status_0(live: Live, output: Path) -> None:
    outcome = run(live, output, "--scenario=steady", "--users=4", "--seconds=2", LOAD_SCALE="100")
    assert outcome.returncode == 0, outcome.stderr
    assert "| one sentence: p99 " in outcome.stdout
    assert "| requests that are unaccounted for | 0 " in outcome.stdout
    assert "MISSED" not in outcome.stdout
    report = json.loads((output / "load-steady.json").read_text())
    assert all(result["is_met"] for result in report["results"])
    assert "| one sentence: p99 | " in (output / "load-steady.md").read_text()


def test_a_level_that_is_missed_ends_with_status_1(live: Live, output: Path) -> None:
    outcome = run(
        live, output, LOAD_SCENARIO="steady", LOAD_USERS="1", LOAD_SECONDS="1", LOAD_SCALE="0.000001"
    )
    assert outcome.returncode == 1
    assert "MISSED" in outcome.stdout


@pytest.mark.slow
def test_the_greedy_client_is_another_than_the_modest_one(live: Live, output: Path) -> None:
    outcome = run(live, output, "--scenario=fairness", "--seconds=5")
    assert "modest, beside a greedy one" in outcome.stdout
    assert "nothing" not in outcome.stdout


def test_every_scenario_can_be_chosen() -> None:
    """Importing the module would replace the sockets of this process."""
    tree = ast.parse((ROOT / "benchmarks/load/scenarios.py").read_text("utf-8"))
    (table,) = (node.value for node in tree.body if "SCENARIOS" in ast.unparse(node).partition(":")[0])
    assert isinstance(table, ast.Dict)
    assert {*(ast.literal_eval(key) for key in table.keys if key), "overload"} == set(SCENARIOS)


def test_an_overload_is_judged_by_its_exit_status(live: Live, output: Path) -> None:
    outcome = run(live, output, "--scenario=overload", "--seconds=1", "--factor=1", "--users=2")
    report = json.loads((output / "load-overload.json").read_text())
    assert outcome.returncode == (0 if all(result["is_met"] for result in report["results"]) else 1)
