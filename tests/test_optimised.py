"""Under `python -O` assertions vanish: nothing of ours needs them, and tests still fail as they should."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize("package", ["app", "model"])
def test_nothing_is_checked_by_an_assertion(package: str) -> None:
    checked = [
        f"{path}:{node.lineno}"
        for path in (ROOT / package).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Assert) or (isinstance(node, ast.Name) and node.id == "__debug__")
    ]
    assert checked == []


def test_errors_are_answered_without_assertions() -> None:
    result = optimised("tests/app/http/test_errors.py")
    assert result.returncode == 0, result.stdout


def test_a_test_and_its_helpers_still_fail(tmp_path: Path) -> None:
    """Waiting for what never comes, a helper has to give up."""
    file = tmp_path / "test_waiting.py"
    file.write_text(
        "import pytest\n"
        "from tests.app.remote import wait_for\n"
        "def test_helper():\n"
        "    with pytest.raises(AssertionError):\n"
        "        wait_for(lambda: open('/no/such/file'), seconds=-1)\n"
        "def test_itself():\n"
        "    assert not __debug__\n"
        "    assert __debug__\n"
    )
    result = optimised("-p", "tests.conftest", str(file))
    assert "1 failed, 1 passed" in result.stdout
    assert "assert __debug__" in result.stdout


def optimised(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A run of tests without assertions, except those that pytest keeps."""
    command = [sys.executable, "-O", "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=580)
