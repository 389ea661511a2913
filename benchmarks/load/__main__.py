"""One load scenario against a running service: `python -m benchmarks.load --scenario steady`.

Locust runs the scenarios of simulated users. `overload` needs more requests than locust can send, so the
generator of this package sends them.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from benchmarks.load.objectives import are_met, deliver, start_report
from benchmarks.load.overload import overload
from benchmarks.load.target import READY_SECONDS, Target, keys_of, wait_until_ready

USERS = {"mixture": 8, "steady": 8, "burst": 800, "lengths": 8, "fairness": 1, "batches": 4}
"""Locust's scenarios, and how many users each has unless told otherwise."""
_SCENARIOS = USERS | {"overload": 64}


def _option(
    name: str, default: object, kind: "type | click.ParamType[Any]", text: str
) -> Callable[[Any], Any]:
    variable = f"LOAD_{name.upper().replace('-', '_')}"
    return click.option(f"--{name}", envvar=variable, default=default, type=kind, help=text)


@click.command(context_settings={"show_default": True})
@_option("scenario", "mixture", click.Choice(list(_SCENARIOS)), "What the service has to bear.")
@_option("url", "http://127.0.0.1:8000", str, "URL of the service.")
@_option("users", None, click.IntRange(min=1), "How many users; for overload, connections. By scenario.")
@_option("seconds", 30.0, click.FloatRange(min=1), "How long.")
@_option("api-keys", "", str, "Keys that the service knows, separated by commas: a client each.")
@_option("factor", 10.0, click.FloatRange(min=0, min_open=True), "For overload: rate of arrival ÷ capacity.")
@_option("output", "runs/load", click.Path(file_okay=False, path_type=Path), "Folder for the report.")
def main(
    scenario: str, url: str, users: int | None, seconds: float, api_keys: str, factor: float, output: Path
) -> None:
    """Put a running service under load; exit status 1 when it missed an objective."""
    count = users or _SCENARIOS[scenario]
    try:
        target = Target.of(url, keys_of(api_keys))
    except (OSError, ValueError) as error:
        raise click.UsageError(str(error)) from error
    if scenario in USERS:
        _run_locust(scenario, target.url, count, seconds, api_keys, output)
    if not wait_until_ready(target.url, READY_SECONDS):
        raise click.ClickException(f"{url} was not ready within {READY_SECONDS} s")
    try:
        report = start_report(scenario, {"connections": count, "seconds": seconds, "factor": factor})
        levels = overload(target, connections=count, seconds=seconds, factor=factor)
        click.echo(deliver(report, levels, target.url, output))
    except (OSError, RuntimeError) as error:
        raise click.ClickException(str(error)) from error
    sys.exit(0 if are_met(levels) else 1)


def _run_locust(scenario: str, url: str, users: int, seconds: float, api_keys: str, output: Path) -> None:
    """Become locust: it replaces Python's sockets, which this process is better without."""
    os.environ |= {
        "LOAD_SCENARIO": scenario,
        "LOAD_SECONDS": str(seconds),
        "LOAD_API_KEYS": api_keys,
        "LOAD_OUTPUT": str(output),
    }
    options = {
        "locustfile": Path(__file__).with_name("locustfile.py"),
        "host": url,
        "users": users,
        "spawn-rate": users,
        "stop-timeout": 60,
    }
    arguments = [f"--{name}={value}" for name, value in options.items()]
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-m", "locust", "--headless", "--only-summary", *arguments])


if __name__ == "__main__":
    main()
