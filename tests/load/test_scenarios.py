"""Scenarios of simulated people, as users start them: in a process of their own, which locust changes."""

import os
import subprocess
import sys

import pytest

from tests.app.remote import ROOT, Live
from tests.load.__main__ import PEOPLE

pytestmark = pytest.mark.skipif(
    subprocess.run([sys.executable, "-c", "import locust"], check=False, capture_output=True).returncode != 0,
    reason="locust is not installed; the extra `load` brings it",
)


def run(live: Live, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.load", f"--url={live.url}", *options]
    return subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_levels_that_are_met_end_with_status_0(live: Live) -> None:
    outcome = run(live, "--scenario=steady", "--users=4", "--seconds=2", LOAD_SCALE="100")
    assert outcome.returncode == 0, outcome.stderr
    assert "| one sentence: p99 " in outcome.stderr
    assert "| requests that are unaccounted for | 0 " in outcome.stderr
    assert "MISSED" not in outcome.stderr


def test_a_level_that_is_missed_ends_with_status_1(live: Live) -> None:
    outcome = run(live, LOAD_SCENARIO="steady", LOAD_USERS="1", LOAD_SECONDS="1", LOAD_SCALE="0.000001")
    assert outcome.returncode == 1
    assert "MISSED" in outcome.stderr


def test_the_greedy_client_is_another_than_the_modest_one(live: Live) -> None:
    outcome = run(live, "--scenario=fairness", "--seconds=6")
    assert "modest, beside a greedy one" in outcome.stderr
    assert "nothing" not in outcome.stderr


def test_every_scenario_can_be_chosen() -> None:
    names = subprocess.run(
        [sys.executable, "-c", "from tests.load.scenarios import SCENARIOS; print(*SCENARIOS)"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert set(names) == set(PEOPLE)
