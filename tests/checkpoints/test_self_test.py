"""The embedded checkpoint's golden sentences: right, of every direction, and not of its training text."""

import json
from itertools import permutations

import pytest

from model.checkpoint.manifest import read_config
from model.checkpoint.self_test import self_test_sentences
from tests.embedded import EMBEDDED, RECIPE

PROVENANCE = json.loads((EMBEDDED / "provenance.json").read_text("utf-8"))
GOLDEN = self_test_sentences(PROVENANCE)


def rows(name: str) -> list[list[str]]:
    return [line.split("\t") for line in (RECIPE / name).read_text("utf-8").splitlines()]


def test_every_golden_sentence_is_a_persons_translation() -> None:
    languages, *sentences = rows("golden.tsv")
    right = {
        (source, target, text, translation)
        for sentence in sentences
        for (source, text), (target, translation) in permutations(zip(languages, sentence, strict=True), 2)
    }
    recorded = {(g.source_language, g.target_language, g.source, g.translation) for g in GOLDEN}
    assert recorded <= right


@pytest.mark.parametrize("pair", read_config(EMBEDDED)[1].pairs, ids="-".join)
def test_every_direction_has_some(pair: tuple[str, str]) -> None:
    assert len([g for g in GOLDEN if (g.source_language, g.target_language) == pair]) >= 3


def test_no_golden_sentence_is_in_the_phrase_list() -> None:
    phrases = {text for row in rows("phrases.tsv") for text in row}
    assert phrases.isdisjoint(text for g in GOLDEN for text in (g.source, g.translation))


def test_its_provenance_names_a_commit() -> None:
    assert len(PROVENANCE["code"]["commit"]) == 40
