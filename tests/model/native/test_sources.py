import re

from model.native.build import SOURCES

_ROOT = SOURCES.parents[2]
_PATH = re.compile(r"\b(?:app|benchmarks|docs|model|tests)/[\w./]*\w")


def test_files_that_the_sources_name_exist() -> None:
    named = {path for file in SOURCES.iterdir() for path in _PATH.findall(file.read_text(encoding="utf-8"))}
    assert "model/request.py" in named
    assert [path for path in sorted(named) if not (_ROOT / path).exists()] == []
