"""What a scenario showed, printed and kept."""

from collections.abc import Sequence
from pathlib import Path

from benchmarks.machine import describe_machine, load_average
from benchmarks.report import Report, Table
from tests.load.accounts import scrape
from tests.load.objectives import HEADINGS, Level, table

_NOTE = "Service and generator share the machine unless said otherwise."


def describe(
    scenario: str, levels: Sequence[Level], *, url: str, load_before: float, settings: dict[str, object]
) -> Report:
    """A scenario's objectives, and the machine on which they were measured.

    Args:
        scenario: Its name.
        levels: How it did.
        url: Of the service.
        load_before: Load average before it began.
        settings: What it was asked to do.

    Raises:
        OSError: If the service has gone.
    """
    return Report(
        name=f"load-{scenario}",
        machine=describe_machine([int(scrape(url)["dragoman_workers"])]),
        loads=(load_before, load_average()),
        settings=settings,
        notes=[_NOTE],
        tables=[Table(title="Objectives", columns=HEADINGS, rows=[level.cells() for level in levels])],
        results=[level.to_dict() for level in levels],
    )


def deliver(report: Report, levels: Sequence[Level], output: Path) -> str:
    """Leave a report in a folder.

    Returns:
        What to print.
    """
    report.write(output)
    return f"{table(levels)}\n\nWritten: {output / report.name}.md and .json"
