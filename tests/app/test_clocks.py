"""What lasts is measured by clocks that never jump; what time it is, the service asks for stamps alone."""

import ast
from pathlib import Path

STAMPS = {
    "admission/keys.py": "when a file was written is told by the wall's clock",
    "telemetry/logs.py": "lines of the log",
    "translation/glossary_store.py": "when a glossary was created",
    "telemetry/tracing.py": "when a trace was; how long it took is told by a clock that never jumps",
}
APP = Path(__file__).resolve().parents[2] / "app"
WALL_CLOCKS = (
    {("time", name) for name in ("time", "time_ns", "localtime", "gmtime", "ctime", "asctime", "strftime")}
    | {("datetime", name) for name in ("now", "utcnow", "today", "fromtimestamp")}
    | {("date", "today")}
)


def wall_clocks_in(source: str) -> list[str]:
    """Where a module reads a clock that may jump, by line."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            owner = (
                node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
            )
            if (owner, node.attr) in WALL_CLOCKS:
                found.append(f"{node.lineno}: {owner}.{node.attr}")
        if isinstance(node, ast.ImportFrom):
            names = {(node.module or "", alias.name) for alias in node.names}
            found += [f"{node.lineno}: {name}" for _, name in sorted(names & WALL_CLOCKS)]
    return found


def test_no_other_module_of_the_service_reads_one() -> None:
    found = {
        str(path.relative_to(APP)): lines
        for path in sorted(APP.rglob("*.py"))
        if (lines := wall_clocks_in(path.read_text()))
    }
    assert {name: lines for name, lines in found.items() if name not in STAMPS} == {}
    assert found.keys() == STAMPS.keys()
