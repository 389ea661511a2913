"""Texts of known lengths, and a user's text as engines get it."""

import gzip
from pathlib import Path

import pytest

from benchmarks.engines.weights import EMBEDDED
from benchmarks.harness.texts import MIXED, read_text, real_texts, word_texts
from model.checkpoint.folder import load_checkpoint
from model.errors import InputError
from model.text.document import Document
from model.text.tokenizer import Tokenizer

LINES = [
    "Good morning.",
    "Where is the station? I do not know.",
    "  The cat sleeps on the old chair in the kitchen.  ",
    "Good morning.",
    "",
]


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


def test_of_real_lines_single_sentences_of_the_nearest_length_are_taken_once(tokenizer: Tokenizer) -> None:
    texts = real_texts(load_checkpoint(EMBEDDED), LINES, ("en", "fr"), (24, 1), 10)
    assert [text.text for text in texts] == [LINES[2].strip(), LINES[0]]
    assert [text.max_length for text in texts] == [256, 256]
    assert texts[0].tokens == len(tokenizer.encode(texts[0].text, target_language="fr"))


def test_a_text_without_a_single_sentence_is_refused() -> None:
    with pytest.raises(InputError, match="at least one line"):
        real_texts(load_checkpoint(EMBEDDED), ["", "One. Two."], ("en", "fr"), (5,), 1)


def test_sentences_come_longest_first_with_their_references(tmp_path: Path, tiny_checkpoint: Path) -> None:
    sources, references = tmp_path / "en", tmp_path / "fr"
    sources.write_text("Good morning.\n\nWhere is the station?\n")
    references.write_text("Bonjour.\n\nOù est la gare ?\n")
    text = read_text(load_checkpoint(tiny_checkpoint), sources, references, "fr", 10)
    assert [len(ids) for ids in text.sources] == sorted((len(ids) for ids in text.sources), reverse=True)
    assert text.references == ["Où est la gare ?", "Bonjour."]
    tokenizer = text.checkpoint.tokenizer
    assert text.bleu([tokenizer.encode_target(each)[:-1] for each in text.references]) == pytest.approx(100)


def test_a_packed_file_of_pairs_is_read_too(tmp_path: Path, tiny_checkpoint: Path) -> None:
    packed = tmp_path / "pairs.tsv.gz"
    packed.write_bytes(gzip.compress(b"Thank you.\tMerci.\r\nThe cat\xe2\x80\xa8sleeps.\tLe chat dort.\n"))
    text = read_text(load_checkpoint(tiny_checkpoint), packed, None, "fr", 10)
    assert sorted(text.references) == ["Le chat dort.", "Merci."]


def test_without_references_there_is_no_score(tmp_path: Path, tiny_checkpoint: Path) -> None:
    (tmp_path / "en").write_text("Good morning.\nThank you.\nThe cat sleeps.\n")
    text = read_text(load_checkpoint(tiny_checkpoint), tmp_path / "en", None, "fr", 2)
    assert (len(text.sources), text.references) == (2, [])


def test_what_does_not_align_or_is_empty_is_refused(tmp_path: Path, tiny_checkpoint: Path) -> None:
    checkpoint = load_checkpoint(tiny_checkpoint)
    (tmp_path / "en").write_text("Good morning.\n")
    (tmp_path / "fr").write_text("")
    with pytest.raises(InputError, match="1 sentences, but 0 references"):
        read_text(checkpoint, tmp_path / "en", tmp_path / "fr", "fr", 2)
    with pytest.raises(InputError, match="at least one sentence"):
        read_text(checkpoint, tmp_path / "fr", None, "fr", 2)
