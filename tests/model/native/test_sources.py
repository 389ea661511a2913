import re

from model.native.build import SOURCES

_ROOT = SOURCES.parents[2]
_PATH = re.compile(r"\b(?:app|benchmarks|docs|model|tests)/[\w./]*\w")


def test_files_that_the_sources_name_exist() -> None:
    texts = [file.read_text(encoding="utf-8") for file in SOURCES.rglob("*.*")]
    named = {path for text in texts for path in _PATH.findall(text)}
    assert "model/decode_request.py" in named
    assert [path for path in sorted(named) if not (_ROOT / path).exists()] == []
