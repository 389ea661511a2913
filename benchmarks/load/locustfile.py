"""The scenario that LOAD_SCENARIO names, for locust; ends with exit status 1 when an objective is missed."""

import logging
import os
import sys
from pathlib import Path

from gevent import spawn_later
from locust import events
from locust.env import Environment
from locust.stats import StatsEntry

from benchmarks.load.objectives import Level, Measured, are_met, deliver, start_report
from benchmarks.load.scenarios import SCALE, SCENARIOS
from benchmarks.load.target import READY_SECONDS, Accounts, wait_until_ready

_NAME = os.environ.get("LOAD_SCENARIO") or "mixture"
_USERS, _OBJECTIVES = SCENARIOS[_NAME]
_SECONDS = float(os.environ.get("LOAD_SECONDS") or 30)
_SETTINGS: dict[str, object] = {"scale": SCALE, "seconds": _SECONDS}
_REPORT = start_report(_NAME, _SETTINGS)

# Locust runs the kinds of users that it finds here.
globals().update({each.__name__: each for each in _USERS})


@events.test_start.add_listener  # type: ignore[untyped-decorator]
def begin(environment: Environment, **_: object) -> None:
    """Wait until the service is ready, and end LOAD_SECONDS after the last user began.

    Locust's own limit would count the wait, and its start, too.
    """
    if not wait_until_ready(environment.host or "", READY_SECONDS):
        sys.exit(f"{environment.host} was not ready within {READY_SECONDS} s")
    if runner := environment.runner:
        when_all_began = environment.events.spawning_complete.add_listener
        when_all_began(lambda **_: spawn_later(_SECONDS, runner.quit))  # type: ignore[no-untyped-call]


@events.quitting.add_listener  # type: ignore[untyped-decorator]
def judge(environment: Environment, **_: object) -> None:
    """Report how the run did, and set the exit status."""
    url = environment.host or ""
    measured = {entry.name: _measured(entry) for entry in environment.stats.entries.values()}
    unaccounted = Accounts.settled(url).unaccounted
    levels = [
        *_OBJECTIVES.levels(measured),
        Level(objective="requests that are unaccounted for", measured=unaccounted, limit=0),
    ]
    if options := environment.parsed_options:
        _SETTINGS.update(users=options.num_users)
    output = Path(os.environ.get("LOAD_OUTPUT") or "runs/load")
    logging.getLogger("load").info("levels of service:\n%s", deliver(_REPORT, levels, url, output))
    environment.process_exit_code = 0 if are_met(levels) else 1


def _measured(entry: StatsEntry) -> Measured:
    return Measured(
        requests=entry.num_requests,
        failures=entry.num_failures,
        latency_ms=lambda share: float(entry.get_response_time_percentile(share) or 0),
    )
