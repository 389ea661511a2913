"""Reports of benchmarks: the machine, Markdown tables to read, and JSON with every figure."""

import dataclasses
import math
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

_VECTORS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8")
_PACKAGES = ("dragoman", "torch", "transformers", "ctranslate2")
_QUIET_LOAD = 1.0
Row = Mapping[str, str]
"""A table's cells by heading."""


class Report:
    """One run of one benchmark; make it before the run, because it notes the load average then.

    Args:
        name: Name of the benchmark and of its files.
        settings: What the run was asked to do.
        threads: Numeric threads of each engine or service.
    """

    def __init__(self, name: str, settings: Mapping[str, object], threads: Sequence[int] = ()) -> None:
        self.name, self.settings, self.threads = name, settings, threads
        self.notes: list[str] = []
        self._tables: dict[str, Sequence[Row]] = {}
        self._results: list[Mapping[str, object]] = []
        self._load_before = os.getloadavg()[0]

    def add(self, title: str, rows: Sequence[Row], results: Sequence[Any] = ()) -> None:
        """Add a table of rows with equal headings, and the results behind it, dataclasses or mappings."""
        self._tables[title] = rows
        self._results += [each if isinstance(each, Mapping) else dataclasses.asdict(each) for each in results]

    def markdown(self) -> str:
        """The machine, the notes and the tables."""
        machine = "; ".join(describe_machine(self.threads).values())
        parts = [f"## {self.name}", machine, self._load_note(), *dict.fromkeys(self.notes)]
        return "\n\n".join(
            [*parts, *(f"### {title}\n\n{markdown_table(rows)}" for title, rows in self._tables.items())]
        )

    def deliver(self, folder: Path | None) -> None:
        """Print the report, and write `NAME.md` and `NAME.json` if a folder is given."""
        markdown = self.markdown()
        print(markdown)
        if folder is None:
            return
        from pydantic_core import to_json  # a session on a GPU makes tables with PyTorch alone

        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{self.name}.md").write_text(markdown, encoding="utf-8")
        content = {
            "name": self.name,
            "machine": describe_machine(self.threads),
            # The folder of a file differs from machine to machine.
            "settings": {n: v.name if isinstance(v, Path) else v for n, v in self.settings.items()},
            "notes": self.notes,
            "tables": [{"title": title, "rows": rows} for title, rows in self._tables.items()],
            "results": self._results,
        }
        (folder / f"{self.name}.json").write_bytes(to_json(content, indent=1, inf_nan_mode="null") + b"\n")
        print(f"Written: {folder / self.name}.md and .json", file=sys.stderr)

    def _load_note(self) -> str:
        before, after = self._load_before, os.getloadavg()[0]
        loads = f"Load average before and after: {before:.1f} and {after:.1f}."
        if before < _QUIET_LOAD:
            return loads
        return (
            f"**The machine was busy.** {loads} Read the ratios; a quiet machine has higher absolute figures."
        )


def rounded(value: float) -> str:
    """A figure to three digits, or whole from 100 on; a dash if it is not a number."""
    if math.isnan(value):
        return "–"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def markdown_table(rows: Sequence[Row]) -> str:
    """Rows with equal headings as a table."""
    columns = list(rows[0]) if rows else []
    lines = [columns, ["---"] * len(columns), *(row.values() for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def describe_machine(threads: Sequence[int]) -> Mapping[str, str]:
    """The machine as it is now; `threads` are the numeric threads of each engine or service."""
    flags = _cpuinfo("flags").split()
    vectors = ", ".join(name for name in _VECTORS if name in flags) or "unknown vector instructions"
    processor = _cpuinfo("model name") or platform.processor() or platform.machine()
    versions = {name: installed_version(name) for name in _PACKAGES}
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "processor": f"{processor} ({vectors}), {os.cpu_count()} cores",
        "threads": f"threads: {' and '.join(map(str, threads))}",
        "system": f"{platform.system()}, Python {platform.python_version()}",
        "versions": ", ".join(f"{name} {version}" for name, version in versions.items() if version),
    }


def installed_version(package: str) -> str | None:
    """Version of a package; None where it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _cpuinfo(field: str) -> str:
    """Returns Linux's description of the first core; empty on other systems."""
    described = Path("/proc/cpuinfo")
    text = described.read_text(encoding="utf-8") if described.exists() else ""
    lines = (line.partition(":") for line in text.splitlines())
    return next((value.strip() for name, _, value in lines if name.strip() == field), "")
