"""The scenario that LOAD_SCENARIO names, for locust; ends with exit status 1 when an objective is missed."""

import logging
import os
import sys
import time

from gevent import sleep
from locust import events
from locust.env import Environment
from locust.stats import StatsEntry

from tests.load.accounts import Accounts
from tests.load.objectives import Level, Measured, are_met, table
from tests.load.scenarios import SCENARIOS
from tests.load.target import wait_until_ready

_SCENARIO = SCENARIOS[os.environ.get("LOAD_SCENARIO") or "mixture"]
_READY_SECONDS = float(os.environ.get("LOAD_READY_SECONDS") or 120)
_LOG = logging.getLogger("load")

# Locust runs the kinds of users that it finds here.
globals().update({each.__name__: each for each in _SCENARIO.people})


@events.test_start.add_listener
def begin(environment: Environment, **_: object) -> None:
    """Wait until the service is ready."""
    if not wait_until_ready(environment.host or "", _READY_SECONDS):
        sys.exit(f"{environment.host} was not ready within {_READY_SECONDS:g} s")


@events.quitting.add_listener
def judge(environment: Environment, **_: object) -> None:
    """Print how the run did, and set the exit status."""
    measured = {entry.name: _measured(entry) for entry in environment.stats.entries.values()}
    levels = [*_SCENARIO.levels(measured), _accounting(environment.host or "")]
    _LOG.info("levels of service:\n%s", table(levels))
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
