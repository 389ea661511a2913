"""One load scenario against a running service: `python -m benchmarks.load --scenario steady`.

Scenarios of simulated users are run by locust; those that need more requests than locust can send, or that
compare rates of arrival, by a generator of our own.
"""

import os
import sys
from pathlib import Path

import click

from benchmarks.load.objectives import are_met, deliver, start_report
from benchmarks.load.overload import overload
from benchmarks.load.saturation import saturation
from benchmarks.load.target import READY_SECONDS, Target, keys_of, wait_until_ready

USERS = {"mixture": 8, "steady": 8, "burst": 800, "lengths": 8, "fairness": 1, "batches": 4}
"""Locust's scenarios, and how many users each has unless told otherwise."""
_CONNECTIONS = {"overload": 64, "saturation": 64}
_SCENARIOS = USERS | _CONNECTIONS


@click.command(context_settings={"show_default": True})
@click.option(
    "--scenario",
    envvar="LOAD_SCENARIO",
    default="mixture",
    type=click.Choice(list(_SCENARIOS)),
    help="What the service has to bear.",
)
@click.option("--url", envvar="LOAD_URL", default="http://127.0.0.1:8000", help="URL of the service.")
@click.option(
    "--users",
    envvar="LOAD_USERS",
    type=click.IntRange(min=1),
    help="How many users; each scenario has its own number. For overload and saturation: connections that "
    "find out the capacity.",
)
@click.option(
    "--seconds",
    envvar="LOAD_SECONDS",
    default=30.0,
    type=click.FloatRange(min=1),
    help="How long; for saturation, at each rate.",
)
@click.option(
    "--api-keys",
    envvar="LOAD_API_KEYS",
    default="",
    help="Keys that the service knows, separated by commas: a client each.",
)
@click.option(
    "--factor",
    envvar="LOAD_FACTOR",
    default=10.0,
    type=click.FloatRange(min=1),
    help="For overload: how many times the capacity.",
)
@click.option(
    "--output",
    envvar="LOAD_OUTPUT",
    default="runs/load",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for the report, and the plot of saturation.",
)
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
        if scenario == "saturation":
            click.echo(saturation(target, connections=count, seconds=seconds, output=output))
            return
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
        "run-time": f"{seconds:g}s",
        "stop-timeout": 60,
    }
    arguments = [f"--{name}={value}" for name, value in options.items()]
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-m", "locust", "--headless", "--only-summary", *arguments])


if __name__ == "__main__":
    main()
