"""What the documents show for Python runs as it stands, except for the address of the service."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.app.remote import ROOT, Live

_BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
_ADDRESS = "http://127.0.0.1:8000"
BLOCKS = [
    pytest.param(block, id=f"{name}-{number}")
    for name in ("README.md", "docs/http-api.md", "docs/getting-started.md")
    for number, block in enumerate(_BLOCK.findall(Path(ROOT, name).read_text("utf-8")))
]


@pytest.mark.parametrize("example", [block for block in BLOCKS if _ADDRESS in str(block.values)])
def test_a_client(live: Live, example: str) -> None:
    assert run(example.replace(_ADDRESS, live.url.rstrip("/"))) == "WHERE IS THE STATION?\n"


@pytest.mark.parametrize("example", [block for block in BLOCKS if _ADDRESS not in str(block.values)])
def test_the_library(example: str) -> None:
    assert "Bonjour." in run(example)


def run(script: str) -> str:
    """What a script prints; it has to end well, without a word on standard error."""
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60, cwd=ROOT
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout
