"""Imported tokenizers give the ids and texts of the originals, for text of ten scripts."""

from pathlib import Path

import pytest

from tests.model.text.original_tokenizers import FAMILIES, sentences

TEXTS = sentences(600, seed=2)


@pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")
@pytest.mark.parametrize("family", FAMILIES)
def test_ids_and_texts_are_those_of_the_original(family: str, tmp_path: Path) -> None:
    encode, decode, tokenizer = FAMILIES[family](tmp_path, sentences(1000))
    ours = tokenizer.encode_batch(TEXTS, source_language="en", target_language="fr")
    assert ours == [encode(text) for text in TEXTS]
    assert tokenizer.encode(TEXTS[0], source_language="en", target_language="fr") == ours[0]
    targets = [tokenizer.encode_target(text) for text in TEXTS]
    assert [tokenizer.decode(ids) for ids in targets] == [decode(ids).strip() for ids in targets]
