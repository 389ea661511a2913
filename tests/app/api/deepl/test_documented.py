"""docs/deepl.md says of every parameter what becomes of it."""

import re
from pathlib import Path

from app.api.deepl.refusals import UNSUPPORTED
from app.api.deepl.schemas import DeepLTranslateRequest

DOCUMENT = Path(__file__).parents[4] / "docs/deepl.md"


def test_every_parameter_is_in_the_table() -> None:
    _, _, rest = DOCUMENT.read_text("utf-8").partition("## What a translation may ask for")
    rows = [line.split("|")[1] for line in rest.partition("\n## ")[0].splitlines() if line.startswith("|")]
    documented = {re.sub("=.*", "", name) for row in rows for name in re.findall("`([^`]+)`", row)}
    assert documented == {*DeepLTranslateRequest.model_fields, *UNSUPPORTED}
