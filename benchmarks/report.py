"""What a benchmark found: Markdown tables to read and to paste, JSON to keep."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.machine import Machine, load_note


@dataclass(frozen=True, kw_only=True)
class Table:
    """Part of a report.

    Attributes:
        title: What it shows.
        columns: Headings.
        rows: Cells.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    def markdown(self) -> str:
        """Ready to be pasted into a document."""
        lines = (_row(self.columns), _row(["---"] * len(self.columns)), *map(_row, self.rows))
        return "\n".join((f"### {self.title}", "", *lines)) + "\n"


@dataclass(frozen=True, kw_only=True)
class Report:
    """One run of one benchmark.

    Attributes:
        name: Of the benchmark and of its files.
        machine: Where it ran.
        loads: Load averages before and after.
        settings: What it was asked to do.
        notes: What a reader must know beside the tables.
        tables: What was found, for people.
        results: Everything measured, every round, each with its `kind`, for JSON.
    """

    name: str
    machine: Machine
    loads: tuple[float, float]
    settings: Mapping[str, object]
    notes: Sequence[str]
    tables: Sequence[Table]
    results: Sequence[Mapping[str, object]]

    def markdown(self) -> str:
        """The machine, the notes and the tables."""
        parts = [f"## {self.name}", str(self.machine), load_note(self.loads), *self.notes]
        return "\n\n".join([*parts, *(table.markdown() for table in self.tables)])

    def write(self, folder: Path) -> None:
        """Leave `NAME.md` and `NAME.json` in a folder, made if need be."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{self.name}.md").write_text(self.markdown(), encoding="utf-8")
        text = json.dumps(dataclasses.asdict(self), indent=1, default=_plain)
        (folder / f"{self.name}.json").write_text(text + "\n", encoding="utf-8")


def _plain(value: object) -> str:
    """Of a file its name: where it lies differs from machine to machine."""
    return value.name if isinstance(value, Path) else str(value)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def rounded(value: float) -> str:
    """A figure to three digits, or whole from 100 on."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def mebibytes(count: int) -> str:
    """Bytes as whole MiB."""
    return f"{count / 2**20:,.0f}"
