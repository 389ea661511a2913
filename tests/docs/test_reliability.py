"""The table of what must hold names tests that exist."""

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_PROOF = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
TABLE = (ROOT / "docs/reliability.md").read_text()


def rows() -> list[list[str]]:
    """Cells of every row, without heads and rulers."""
    lines = [line.strip("|").split(" | ") for line in TABLE.splitlines() if line.startswith("|")]
    return [
        [cell.strip() for cell in line] for line in lines if line[0].strip() not in ("Case", "---|---|---")
    ]


def test_every_proof_is_a_test_of_the_suite() -> None:
    named = _PROOF.findall(TABLE)
    assert [f"{path}::{name}" for path, name in named if name not in _tests_of(ROOT / path)] == []


def test_no_case_lacks_an_answer_or_a_proof() -> None:
    assert len(rows()) > 50
    assert [row for row in rows() if len(row) != 3 or not row[1]] == []
    assert [case for case, _, proof in rows() if not _PROOF.search(proof) and "by hand" not in proof] == []


@cache
def _tests_of(path: Path) -> set[str]:
    if not path.is_file():
        return set()
    nodes = ast.walk(ast.parse(path.read_text()))
    functions = (node.name for node in nodes if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))
    return {name for name in functions if name.startswith("test_")}
