"""What the documents show for these clients runs as it stands, but for the port."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.app.remote import ROOT, Live

_BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
EXAMPLES = [
    pytest.param(block, id=f"{name}-{number}")
    for name in ("README.md", "docs/deepl.md")
    for number, block in enumerate(_BLOCK.findall(Path(ROOT, name).read_text("utf-8")))
]


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example(live: Live, example: str) -> None:
    assert "http://127.0.0.1:8000" in example
    script = example.replace("http://127.0.0.1:8000", live.url.rstrip("/"))
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60
    )
    assert (ran.stdout, ran.stderr) == ("WHERE IS THE STATION?\n", "")
