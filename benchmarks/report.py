"""What a benchmark found: a Markdown table to read, JSON to keep."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.machine import Machine, load_note


@dataclass(frozen=True, kw_only=True)
class Report:
    """One run of one benchmark.

    Attributes:
        name: Of the benchmark and of its files.
        machine: Where it ran.
        loads: Load averages before and after.
        settings: What it was asked to do.
        notes: What a reader must know beside the table.
        columns: Headings of the table.
        rows: Its cells.
        results: Everything measured, every round, for JSON.
    """

    name: str
    machine: Machine
    loads: tuple[float, float]
    settings: Mapping[str, object]
    notes: Sequence[str]
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    results: Sequence[Mapping[str, object]]

    def markdown(self) -> str:
        """The table, the machine and the notes."""
        lines = [f"## {self.name}", "", str(self.machine), "", load_note(self.loads)]
        lines += [part for note in self.notes for part in ("", note)]
        lines += ["", _row(self.columns), _row(["---"] * len(self.columns)), *map(_row, self.rows)]
        return "\n".join(lines) + "\n"

    def write(self, folder: Path) -> None:
        """Leave `NAME.md` and `NAME.json` in a folder, made if need be."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{self.name}.md").write_text(self.markdown(), encoding="utf-8")
        text = json.dumps(dataclasses.asdict(self), indent=1, default=str)
        (folder / f"{self.name}.json").write_text(text + "\n", encoding="utf-8")


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def rounded(value: float) -> str:
    """A figure to three digits, or whole from 100 on."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
