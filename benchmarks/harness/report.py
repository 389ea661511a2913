"""Reports of benchmarks: Markdown tables to read, JSON with every figure, and plots."""

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.harness.machine import describe_machine, installed_version, load_average, load_note

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_GREENS = ("#0c3b30", "#1b6e5a", "#3f9a84", "#7fc8b8", "#b9e3da")
_REDS = ("#7a2e12", "#b55a30", "#e0a070", "#f1d0b5", "#8a8a8a")
Row = Mapping[str, str]
"""A table's cells by heading."""


@dataclass(frozen=True)
class Table:
    """Rows with the same headings in the same order."""

    title: str
    rows: Sequence[Row]

    def markdown(self) -> str:
        """Ready to be pasted into a document."""
        columns = list(self.rows[0]) if self.rows else []
        lines = [columns, ["---"] * len(columns), *(row.values() for row in self.rows)]
        return "\n".join([f"### {self.title}", "", *(f"| {' | '.join(line)} |" for line in lines)]) + "\n"


@dataclass(frozen=True)
class Plot:
    """Lines against `ticks`: a panel for each quantity, in it a line for each name, a value for each tick."""

    panels: Mapping[str, Mapping[str, Sequence[float]]]
    ticks: Sequence[float]
    xlabel: str


class Report:
    """One run of one benchmark; make it before the run, for the load average then, and add what is found.

    Args:
        name: Name of the benchmark and of its files.
        settings: What the run was asked to do.
        threads: Numeric threads of each engine or service.
    """

    def __init__(self, name: str, settings: Mapping[str, object], threads: Sequence[int] = ()) -> None:
        self.name, self.settings, self.threads = name, settings, threads
        self.notes: list[str] = []
        self.tables: list[Table] = []
        self.results: list[Mapping[str, object]] = []
        self.plot: Plot | None = None
        self._load_before = load_average()

    def add(self, title: str, rows: Sequence[Row], kind: str = "", results: Sequence[Any] = ()) -> None:
        """Add a table, and the figures behind it as dataclasses or mappings of one kind."""
        self.tables.append(Table(title, rows))
        self.results += [
            {"kind": kind, **(each if isinstance(each, Mapping) else dataclasses.asdict(each))}
            for each in results
        ]

    def markdown(self) -> str:
        """The machine, the notes and the tables."""
        load = load_note(self._load_before, load_average())
        parts = [f"## {self.name}", str(describe_machine(self.threads)), load, *dict.fromkeys(self.notes)]
        return "\n\n".join([*parts, *(table.markdown() for table in self.tables)])

    def write(self, folder: Path) -> str:
        """Write `NAME.md`, `NAME.json` and, with matplotlib, the plot into a folder; returns the Markdown."""
        folder.mkdir(parents=True, exist_ok=True)
        markdown = self.markdown()
        (folder / f"{self.name}.md").write_text(markdown, encoding="utf-8")
        content = {
            "name": self.name,
            "machine": dataclasses.asdict(describe_machine(self.threads)),
            "loads": [self._load_before, load_average()],
            "settings": self.settings,
            "notes": self.notes,
            "tables": [dataclasses.asdict(table) for table in self.tables],
            "results": self.results,
        }
        text = json.dumps(_finite(content), indent=1, default=_plain, ensure_ascii=False, allow_nan=False)
        (folder / f"{self.name}.json").write_text(text + "\n", encoding="utf-8")
        if self.plot is not None and installed_version("matplotlib"):
            _draw(self.plot, folder / f"{self.name}.png")
        return markdown


def rounded(value: float) -> str:
    """A figure to three digits, or whole from 100 on; a dash if it is not a number."""
    if value != value:
        return "–"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def mebibytes(count: int) -> str:
    """Bytes as whole MiB."""
    return f"{count / 2**20:,.0f}"


def _plain(value: object) -> str:
    """The name of a file, whose folder differs from machine to machine; the text of anything else."""
    return value.name if isinstance(value, Path) else str(value)


def _finite(value: object) -> object:
    """The same value with null for NaN and infinity, which JSON cannot hold."""
    if isinstance(value, Mapping):
        return {str(name): _finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _finite(dataclasses.asdict(value))
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _draw(plot: Plot, path: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.5 * len(plot.panels), 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    for index, (quantity, series) in enumerate(plot.panels.items()):
        axes = figure.add_subplot(1, len(plot.panels), index + 1)
        _draw_panel(axes, series, plot)
        axes.set_title(quantity)
    figure.savefig(path, dpi=110)


def _draw_panel(axes: "Axes", series: Mapping[str, Sequence[float]], plot: Plot) -> None:
    ours = [name for name in series if name.startswith("dragoman")]
    for name, values in series.items():
        palette, place = (_GREENS, ours.index(name)) if name in ours else (_REDS, list(series).index(name))
        axes.plot(plot.ticks, values, marker="o", label=name, color=palette[place % len(palette)])
    axes.set_xlabel(plot.xlabel)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.grid(visible=True, alpha=0.3)
    axes.legend(fontsize="x-small")
