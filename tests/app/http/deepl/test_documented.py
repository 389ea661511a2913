"""docs/http-api.md says of every parameter of DeepL's what becomes of it."""

import re
from pathlib import Path

from app.http.deepl.refusals import UNSUPPORTED
from app.http.deepl.schemas import DeepLTranslateRequest

PAGE = Path(__file__).parents[4] / "docs/http-api.md"


def test_every_parameter_is_in_the_table() -> None:
    _, _, rest = PAGE.read_text("utf-8").partition("### DeepL's parameters")
    rows = [line.split("|")[1] for line in rest.partition("\n### ")[0].splitlines() if line.startswith("|")]
    documented = {re.sub("=.*", "", name) for row in rows for name in re.findall("`([^`]+)`", row)}
    assert documented == {*DeepLTranslateRequest.model_fields, *UNSUPPORTED}
