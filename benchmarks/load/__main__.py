"""One load scenario against a running service: `python -m benchmarks.load --scenario steady`.

Locust simulates the users of most scenarios. `overload` needs more requests than locust can send, so the
generator of this package sends them.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from benchmarks.harness.report import Report

SCENARIOS = {
    "mixture": 8,
    "steady": 8,
    "burst": 800,
    "lengths": 8,
    "fairness": 1,
    "batches": 4,
    "overload": 64,
}
"""How many users each scenario has unless told otherwise; for `overload`, connections."""
_READY_SECONDS = 120
_NOTE = "Service and generator share the machine unless said otherwise."


def _option(
    name: str, default: object, kind: "type | click.ParamType[Any]", text: str
) -> Callable[[Any], Any]:
    variable = f"LOAD_{name.upper().replace('-', '_')}"
    return click.option(f"--{name}", envvar=variable, default=default, type=kind, help=text)


@click.command(context_settings={"show_default": True})
@_option("scenario", "mixture", click.Choice(list(SCENARIOS)), "What the service has to bear.")
@_option("url", "http://127.0.0.1:8000", str, "URL of the service.")
@_option("users", None, click.IntRange(min=1), "How many users; for overload, connections. By scenario.")
@_option("seconds", 30.0, click.FloatRange(min=1), "How long.")
@_option("scale", 1.0, float, "Multiplies the time limits, except those of overload.")
@_option("factor", 10.0, click.FloatRange(min=0, min_open=True), "For overload: rate of arrival ÷ capacity.")
@_option("api-keys", "", str, "Keys that the service knows, separated by commas: a client each.")
@_option("output", "runs/load", click.Path(file_okay=False, path_type=Path), "Folder for the report.")
def main(
    scenario: str,
    url: str,
    users: int | None,
    seconds: float,
    scale: float,
    factor: float,
    api_keys: str,
    output: Path,
) -> None:
    """Put a running service under load; exit status 1 when it missed an objective."""
    # Locust replaces Python's sockets when it is imported: before anything uses them, and never for overload.
    if scenario != "overload":
        from benchmarks.load.scenarios import simulate
    from benchmarks.load.objectives import are_met
    from benchmarks.load.overload import overload
    from benchmarks.load.target import clients_of, scrape, wait_until_ready

    url, count = url.rstrip("/"), users or SCENARIOS[scenario]
    keys = [key for key in api_keys.split(",") if key]
    try:
        clients = clients_of(url, 2 if scenario == "fairness" else 1, keys)
    except (OSError, ValueError) as error:
        raise click.UsageError(str(error)) from error
    if not wait_until_ready(url, _READY_SECONDS):
        raise click.ClickException(f"{url} was not ready within {_READY_SECONDS} s")
    settings = {"users": count, "seconds": seconds, "scale": scale, "factor": factor}
    report = Report(f"load-{scenario}", settings)
    report.notes.append(_NOTE)
    try:
        if scenario == "overload":
            levels = overload(url, clients[0], connections=count, seconds=seconds, factor=factor)
        else:
            levels = simulate(scenario, url, clients, users=count, seconds=seconds, scale=scale)
        report.threads = [int(scrape(url)["dragoman_workers"])]
    except (OSError, RuntimeError) as error:
        raise click.ClickException(str(error)) from error
    results = [{**vars(level), "is_met": level.is_met} for level in levels]
    report.add("Objectives", [level.row() for level in levels], results)
    report.deliver(output)
    sys.exit(not are_met(levels))


if __name__ == "__main__":
    main()
