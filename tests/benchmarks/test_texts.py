"""Texts of known lengths."""

import pytest

from benchmarks.checkpoints import EMBEDDED
from benchmarks.texts import MIXED, real_texts, word_texts
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
