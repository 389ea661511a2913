"""Random networks with a real tokenizer."""

from pathlib import Path

from benchmarks.checkpoints import EMBEDDED, grown_tokenizer
from benchmarks.shapes import FIRST_WORD
from model.text.tokenizer import Tokenizer

TEXT = "Where is the station? Über naïve ☕"


def test_a_grown_vocabulary_cuts_text_as_the_embedded_one(tmp_path: Path) -> None:
    grown_tokenizer(tmp_path, 8_100)
    embedded, grown = Tokenizer.load(EMBEDDED), Tokenizer.load(tmp_path)
    assert grown.source_vocab_size == 8_100
    assert grown.encode(TEXT, target_language="fr") == embedded.encode(TEXT, target_language="fr")
    assert grown.decode([8_050, 8_051]) == "w8050x w8051x"


def test_words_begin_after_special_pieces_and_bytes() -> None:
    pieces = Tokenizer.load(EMBEDDED).source_pieces(range(FIRST_WORD + 1))
    assert all(piece.startswith("<") for piece in pieces[:FIRST_WORD])
    assert not pieces[FIRST_WORD].startswith("<")
