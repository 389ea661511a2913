"""A user's text as engines get it."""

import gzip
from pathlib import Path

import pytest

from benchmarks.text import read_text
from model.checkpoint.folder import load_checkpoint
from model.errors import InputError


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
