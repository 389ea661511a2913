"""The table of variants names tests and settings; they must be there."""

import dataclasses
import re
from pathlib import Path

from model.config import PRESETS, TransformerConfig

ROOT = Path(__file__).parents[2]
TABLE = (ROOT / "docs" / "variants.md").read_text(encoding="utf-8")
PLACES = sorted(set(re.findall(r"`([\w/]+\.py(?:::\w+)?)`", TABLE)))


def exists(place: str) -> bool:
    """Whether there is such a file, and such a function in it if one is named."""
    path, _, function = place.partition("::")
    file = ROOT / path
    return file.is_file() and (not function or f"def {function}(" in file.read_text(encoding="utf-8"))


def test_what_the_table_names_exists() -> None:
    assert [place for place in PLACES if not exists(place)] == []


def test_every_row_is_there_once() -> None:
    rows = re.findall(r"^\| (\d+) \|", TABLE, re.MULTILINE)
    assert [int(row) for row in rows] == list(range(1, 45))


def test_the_python_of_the_page_runs() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", TABLE, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 4
    exec("\n".join(blocks), {})


def test_every_preset_is_named() -> None:
    assert {name for name in PRESETS if f"`{name}`" not in TABLE} == set()


def test_every_setting_of_the_network_is_named() -> None:
    from_the_tokenizer = {"bos_id", "eos_id", "unk_id", "decoder_start_id"}
    names = {field.name for field in dataclasses.fields(TransformerConfig)} - from_the_tokenizer
    assert {name for name in names if not re.search(f"`{name}[` ]", TABLE)} == set()
