"""Texts of known lengths, and a user's text as engines get it."""

from pathlib import Path

import pytest

from benchmarks.harness.texts import MIXED, read_text, word_texts
from benchmarks.weights import EMBEDDED
from model.checkpoint.folder import load_checkpoint
from model.errors import InputError
from model.text.document import Document
from model.text.tokenizer import Tokenizer


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.load(EMBEDDED)


def test_words_make_as_many_tokens_as_wanted_in_one_sentence(tokenizer: Tokenizer) -> None:
    texts = word_texts(tokenizer, MIXED, 20, seed=1)
    assert [text.tokens for text in texts] == [MIXED[i % len(MIXED)] for i in range(20)]
    for text in texts:
        assert len(tokenizer.encode(text.text, target_language="fr")) == text.tokens == text.max_length
        assert Document.split(text.text, "en").sentences == (text.text,)
    assert word_texts(tokenizer, MIXED, 20, seed=1) == texts
    assert word_texts(tokenizer, MIXED, 20, seed=2) != texts


def test_sentences_come_longest_first_with_their_references(tmp_path: Path, tiny_checkpoint: Path) -> None:
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("Good morning.\tBonjour.\n\nWhere is the station?\tOù est la gare ?\n")
    text = read_text(load_checkpoint(tiny_checkpoint), pairs, "fr", 10)
    assert [len(ids) for ids in text.sources] == sorted((len(ids) for ids in text.sources), reverse=True)
    assert text.references == ["Où est la gare ?", "Bonjour."]
    encode = text.checkpoint.tokenizer.encode_target
    assert text.bleu([tuple(encode(each)[:-1]) for each in text.references]) == pytest.approx(100)


def test_without_references_there_is_no_score(tmp_path: Path, tiny_checkpoint: Path) -> None:
    (tmp_path / "en").write_text("Good morning.\nThank you.\nThe cat sleeps.\n")
    text = read_text(load_checkpoint(tiny_checkpoint), tmp_path / "en", "fr", 2)
    assert (len(text.sources), text.references) == (2, [])


def test_an_empty_text_is_refused(tmp_path: Path, tiny_checkpoint: Path) -> None:
    (tmp_path / "en").write_text("")
    with pytest.raises(InputError, match="at least one sentence"):
        read_text(load_checkpoint(tiny_checkpoint), tmp_path / "en", "fr", 2)
