"""docs/http-api.md has every error code, field of a request and parameter of DeepL's, and no other."""

import re
from collections.abc import Iterator
from pathlib import Path

from app.http.deepl.schemas import UNSUPPORTED, DeepLTranslateRequest
from app.http.errors import CLIENT_GONE, STATUSES
from app.http.schemas import Decoding, TranslateRequest

PAGE = (Path(__file__).parents[2] / "docs/http-api.md").read_text("utf-8")


def first_column(head: str) -> Iterator[str]:
    """First cells of the table whose head begins with this one."""
    _, _, rest = PAGE.partition(f"| {head} |")
    for row in rest.partition("\n\n")[0].splitlines()[2:]:
        yield row.split("|")[1]


def names_in(head: str) -> set[str]:
    """Names in the first column of a table, without a value that follows them."""
    return {re.sub("=.*", "", name) for cell in first_column(head) for name in re.findall("`([^`]+)`", cell)}


def test_every_error_code_is_there_with_its_status() -> None:
    table = PAGE.partition("<!-- errors: begin -->")[2].partition("<!-- errors: end -->")[0]
    documented = re.findall(r"^\| (\d{3}) \| `(\w+)` \| \S", table, re.MULTILINE)
    expected = {code: status for code, status in STATUSES.items() if status != CLIENT_GONE}
    assert [(code, int(status)) for status, code in documented] == list(expected.items())


def test_every_field_of_a_request_is_there() -> None:
    assert names_in("field") == set(TranslateRequest.model_fields)


def test_every_option_of_a_search_is_there() -> None:
    assert names_in("`decoding.…`") == set(Decoding.model_fields)


def test_every_parameter_of_deepl_is_there() -> None:
    assert names_in("parameter") == {*DeepLTranslateRequest.model_fields, *UNSUPPORTED}
