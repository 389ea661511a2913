"""The weights that engines share."""

from pathlib import Path

from benchmarks.weights import EMBEDDED, FIRST_WORD, resized_tokenizer
from model.text.tokenizer import Tokenizer

TEXT = "Where is the station? Über naïve ☕"


def test_a_grown_vocabulary_cuts_text_as_the_embedded_one(tmp_path: Path) -> None:
    embedded = Tokenizer.load(EMBEDDED)
    size = embedded.source_vocab_size + 100
    resized_tokenizer(tmp_path, size)
    grown = Tokenizer.load(tmp_path)
    assert grown.source_vocab_size == size
    assert grown.encode(TEXT, target_language="fr") == embedded.encode(TEXT, target_language="fr")
    assert grown.decode([size - 2, size - 1]) == f"w{size - 2}x w{size - 1}x"


def test_a_smaller_vocabulary_still_spells_everything(tmp_path: Path) -> None:
    resized_tokenizer(tmp_path, 2_000)
    small = Tokenizer.load(tmp_path)
    assert small.source_vocab_size == 2_000
    assert small.decode(small.encode(TEXT, target_language="fr")[1:]) == TEXT


def test_words_begin_after_special_pieces_and_bytes() -> None:
    pieces = Tokenizer.load(EMBEDDED).source_pieces(range(FIRST_WORD + 1))
    assert all(piece.startswith("<") for piece in pieces[:FIRST_WORD])
    assert not pieces[FIRST_WORD].startswith("<")
