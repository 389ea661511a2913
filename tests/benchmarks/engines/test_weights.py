"""The weights that engines share."""

from pathlib import Path

import click
import pytest

from benchmarks.engines import ENGINES, choose
from benchmarks.engines.weights import EMBEDDED, FIRST_WORD, Weights, resized_tokenizer
from model.errors import ConfigError
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


def test_engines_of_one_format_share_a_folder(tiny_checkpoint: Path, tmp_path: Path) -> None:
    weights = Weights(tiny_checkpoint, tmp_path)
    folders = {name: weights.folder_of(ENGINES[name]) for name in ENGINES}
    assert folders["dragoman-torch-int8"] == tiny_checkpoint
    assert folders["ctranslate2-int8"] == tmp_path / "ctranslate2-int8"
    assert folders["hugging-face-float32"] == tmp_path / "pegasus-float32"
    assert weights.left_out == []


def test_what_a_format_cannot_hold_stays_away(
    tiny_checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object) -> None:
        raise ConfigError("positions", "'sinusoidal' for marian", "rotary")

    monkeypatch.setattr("benchmarks.engines.weights.export_checkpoint", refuse)
    weights = Weights(tiny_checkpoint, tmp_path)
    peer = ENGINES["hugging-face-float32"]
    assert weights.folder_of(peer) is None
    assert weights.folder_of(ENGINES["dragoman-torch-int8"]) == tiny_checkpoint
    (line,) = weights.left_out
    assert line.startswith("Left out: hugging-face-float32 (`positions` must be")


def test_ours_comes_first_and_must_be_given() -> None:
    names = [each.name for each in choose(["ctranslate2-int8", "dragoman-torch-int8"], "cpu")]
    assert names == ["dragoman-torch-int8", "ctranslate2-int8"]
    with pytest.raises(click.UsageError, match="--engine must name one of"):
        choose(["ctranslate2-int8"], "cpu")
