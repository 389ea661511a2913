"""docs/http-api.md has a row for every field of a request and every option of a search."""

import re
from pathlib import Path

from app.http.schemas import Decoding, TranslateRequest

PAGE = (Path(__file__).parents[3] / "docs/http-api.md").read_text("utf-8")


def documented(head: str) -> set[str]:
    """Names in the first column of the table with this head."""
    _, _, rest = PAGE.partition(f"| {head} |")
    rows = rest.partition("\n\n")[0].splitlines()[2:]
    return {name for row in rows for name in re.findall("`([^`]+)`", row.split("|")[1])}


def test_every_field_is_in_the_table() -> None:
    assert documented("field") == set(TranslateRequest.model_fields)


def test_every_option_of_a_search_is_in_the_table() -> None:
    assert documented("`decoding.…`") == set(Decoding.model_fields)
