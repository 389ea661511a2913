"""Under `python -O` assertions vanish, and nothing else does: nothing of ours needs them."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize("package", ["app", "dragoman", "model"])
def test_nothing_is_checked_by_an_assertion(package: str) -> None:
    checked = [
        f"{path}:{node.lineno}"
        for path in (ROOT / package).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Assert) or (isinstance(node, ast.Name) and node.id == "__debug__")
    ]
    assert checked == []
