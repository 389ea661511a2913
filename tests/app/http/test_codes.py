"""Error codes: each can happen, and the connection answers it with the same status."""

import re
from pathlib import Path

import pytest

from app.http.errors import _WIRE_REASONS, STATUSES

APP = Path(__file__).parents[3] / "app"
SOURCE = "\n".join(path.read_text("utf-8") for path in APP.rglob("*.py"))


@pytest.mark.parametrize("code", STATUSES)
def test_a_code_is_used(code: str) -> None:
    """Its status is one place that names it; whatever raises it or answers with it is another."""
    assert len(re.findall(f'"{code}"', SOURCE)) >= 2


def test_a_connection_gives_them_the_same_status() -> None:
    assert {code: status for status, (code, _) in _WIRE_REASONS.items()}.items() <= STATUSES.items()
