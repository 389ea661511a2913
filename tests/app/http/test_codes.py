"""Error codes: each is told about, each can happen, and nobody has another status for it."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.http.errors import CLIENT_GONE, STATUSES
from app.http.rejection import _REASONS

ROOT = Path(__file__).parents[3]


def documented() -> Iterator[tuple[str, int]]:
    """Codes and statuses of the table in docs/http-api.md."""
    text = (ROOT / "docs/http-api.md").read_text(encoding="utf-8")
    table = text.partition("<!-- errors: begin -->")[2].partition("<!-- errors: end -->")[0]
    for status, code in re.findall(r"^\| (\d{3}) \| `(\w+)` \| \S", table, re.MULTILINE):
        yield code, int(status)


def test_those_that_clients_see_are_documented_with_their_status() -> None:
    expected = {code: status for code, status in STATUSES.items() if status != CLIENT_GONE}
    assert list(documented()) == list(expected.items())


@pytest.mark.parametrize("code", STATUSES)
def test_somebody_tells_of_it(code: str) -> None:
    sources = [path for path in (ROOT / "app").rglob("*.py") if path.name != "codes.py"]
    assert any(f'"{code}"' in path.read_text(encoding="utf-8") for path in sources)


def test_a_connection_gives_them_the_same_status() -> None:
    assert {code: status for status, (code, _) in _REASONS.items()}.items() <= STATUSES.items()
