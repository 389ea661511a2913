"""The scenario that LOAD_SCENARIO names, for locust; ends with exit status 1 when an objective is missed."""

import logging
import os
import sys
import time
from pathlib import Path

from gevent import sleep
from locust import events
from locust.env import Environment
from locust.stats import StatsEntry

from benchmarks.machine import load_average
from tests.load.accounts import Accounts
from tests.load.objectives import Level, Measured, are_met
from tests.load.scenarios import SCALE, SCENARIOS
from tests.load.target import READY_SECONDS, wait_until_ready
from tests.load.verdict import deliver, describe

_NAME = os.environ.get("LOAD_SCENARIO") or "mixture"
_SCENARIO = SCENARIOS[_NAME]
_OUTPUT = Path(os.environ.get("LOAD_OUTPUT") or "runs/load")
_LOAD_BEFORE = load_average()
_LOG = logging.getLogger("load")

# Locust runs the kinds of users that it finds here.
globals().update({each.__name__: each for each in _SCENARIO.people})


@events.test_start.add_listener
def begin(environment: Environment, **_: object) -> None:
    """Wait until the service is ready."""
    if not wait_until_ready(environment.host or "", READY_SECONDS):
        sys.exit(f"{environment.host} was not ready within {READY_SECONDS} s")


@events.quitting.add_listener
def judge(environment: Environment, **_: object) -> None:
    """Say how the run did, and set the exit status."""
    url = environment.host or ""
    measured = {entry.name: _measured(entry) for entry in environment.stats.entries.values()}
    levels = [*_SCENARIO.levels(measured), _accounting(url)]
    options = environment.parsed_options
    settings = {"scale": SCALE, "users": options.num_users, "seconds": options.run_time} if options else {}
    report = describe(_NAME, levels, url=url, load_before=_LOAD_BEFORE, settings=settings)
    _LOG.info("levels of service:\n%s", deliver(report, levels, _OUTPUT))
    environment.process_exit_code = 0 if are_met(levels) else 1


def _measured(entry: StatsEntry) -> Measured:
    return Measured(
        requests=entry.num_requests,
        failures=entry.num_failures,
        latency_ms=lambda share: float(entry.get_response_time_percentile(share) or 0),
    )


def _accounting(url: str) -> Level:
    """Every request has one outcome, once the last ones of this run have theirs."""
    deadline = time.monotonic() + 5
    while (accounts := Accounts.of(url)).in_flight > 1 and time.monotonic() < deadline:
        sleep(0.1)
    return Level(objective="requests that are unaccounted for", measured=accounts.unaccounted, limit=0)
