"""The table of what must hold names tests that exist."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_PROOF = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def proofs() -> list[tuple[str, str]]:
    return _PROOF.findall((ROOT / "docs/reliability.md").read_text())


def test_every_proof_is_a_test_of_the_suite() -> None:
    missing = [f"{path}::{name}" for path, name in proofs() if name not in _tests_of(ROOT / path)]
    assert not missing


def _tests_of(path: Path) -> set[str]:
    if not path.is_file():
        return set()
    nodes = ast.walk(ast.parse(path.read_text()))
    functions = (node.name for node in nodes if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))
    return {name for name in functions if name.startswith("test_")}
