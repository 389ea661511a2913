"""A checkpoint written by release 0.1.0 must load and translate alike in every release of its format.

Never write `golden/` anew: if this test fails, stored checkpoints of users have stopped working.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from model.native.binding import ENVIRONMENT
from model.translation.translator import Translator

GOLDEN = Path(__file__).parent / "golden"
ROWS = json.loads((GOLDEN / "translations.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module", params=["native", "torch"])
def translator(request: pytest.FixtureRequest) -> Iterator[Translator]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(ENVIRONMENT, "off" if request.param == "torch" else "auto")
        yield Translator.load(GOLDEN / "checkpoint", device="cpu", precision="float32")


def test_the_content_is_what_it_was(translator: Translator) -> None:
    checksum = "e8a2093c425b6527980a3a27d248aa293697e0f5ab58cb4dfcc93318aa34a16f"
    assert translator.checksum == checksum


@pytest.mark.parametrize("row", ROWS, ids=[row["text"] for row in ROWS])
def test_the_same_tokens_come_out(translator: Translator, row: dict[str, object]) -> None:
    translation = translator.translate([row["text"]], source=row["source"], target=row["target"])[0]
    sentence = translation.sentences[0]
    assert list(sentence.request.source_ids) == row["source_ids"]
    assert list(sentence.hypotheses[0].token_ids) == row["token_ids"]
    assert translation.text == row["translation"]
