"""Sides without SentencePiece: characters, and the byte pair encoding of subword-nmt."""

import sys
import time
from pathlib import Path

import pytest

from model.errors import TokenizerError
from model.text.tokenizer import Tokenizer, TokenizerSettings, write_tokenizer
from model.text.vocabulary_models import MosesWords, SubwordNmtModel

SPECIALS = {"pad": 0, "unk": 1, "bos": 2, "eos": 3}
NAMES = ["<blank>", "<unk>", "<s>", "</s>"]
# `a b` stands twice and `x x` overlaps itself; the first line that fits has the lowest rank.
MERGES = ["l o", "lo w", "e r", "er </w>", "a b", "a b", "x x", "n e</w>", "o ne</w>"]


def subword_nmt(folder: Path, head: str = "#version: 0.2\n", **changes: str) -> SubwordNmtModel:
    (folder / "bpe.model").write_text(head + "\n".join(changes.get(each, each) for each in MERGES) + "\n")
    pieces = [*NAMES, "low@@", "er@@", "ab@@", "xx@@", "one", "r", "x", "e@@", "n@@", "ne", "low", "a", "w@@"]
    return SubwordNmtModel(folder / "bpe.model", pieces, SPECIALS)


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("one", "one"),
        ("lower low", "low@@ e@@ r <unk> <unk>"),
        ("xxx", "xx@@ x"),
        ("abe", "ab@@ <unk>"),
        ("a ne", "a ne"),
        ("</s> ä", "<unk> <unk> <unk> <unk> <unk>"),
        ("", ""),
    ],
)
def test_pairs_are_merged_by_rank_as_subword_nmt_does(tmp_path: Path, text: str, pieces: str) -> None:
    model = subword_nmt(tmp_path)
    assert " ".join(model.pieces(model.encode(text))) == pieces


def test_the_end_of_a_word_is_a_symbol_of_its_own_in_version_0_1(tmp_path: Path) -> None:
    model = subword_nmt(tmp_path, "")
    assert model.pieces(model.encode("lower a")) == ["low@@", "<unk>", "a"]


def test_pieces_become_words(tmp_path: Path) -> None:
    model = subword_nmt(tmp_path)
    ids = [2, *model.encode("xxx one"), 1, 3]
    assert model.decode(ids) == "xxx one"
    assert model.decode(model.encode("xxx")[:1]) == "xx"


def test_a_long_word_takes_no_quadratic_time(tmp_path: Path) -> None:
    model, began = subword_nmt(tmp_path), time.perf_counter()
    assert len(model.encode("xy" * 10_000)) == 20_000
    assert time.perf_counter() - began < 5


@pytest.mark.parametrize(
    ("head", "merge", "message"),
    [
        ("#version: 0.3\n", "l o", "must be of version 0.1 or 0.2, but is of '0.3'"),
        ("#version: 0.2\n", "l o w", "must hold pairs of symbols, but line 2 is 'l o w'"),
    ],
)
def test_a_file_of_no_merges_is_refused(tmp_path: Path, head: str, merge: str, message: str) -> None:
    with pytest.raises(TokenizerError, match=message):
        subword_nmt(tmp_path, head, **{"l o": merge})
    with pytest.raises(TokenizerError, match="cannot read"):
        SubwordNmtModel(tmp_path / "none", NAMES, SPECIALS)


@pytest.mark.parametrize("space", [" ", "▁"])
def test_characters_need_no_model_file(tmp_path: Path, space: str) -> None:
    settings = TokenizerSettings(special_ids=SPECIALS, prepare="none", pieces="characters")
    vocabularies = {
        "source.vocabulary.json": [*NAMES, *"abc<>/s", space],
        "target.vocabulary.json": [*NAMES, *"xyz", space],
    }
    write_tokenizer(tmp_path, settings, models={}, vocabularies=vocabularies)
    tokenizer = Tokenizer.load(tmp_path)
    assert not tokenizer.is_shared
    assert tokenizer.encode("ab\nc") == [4, 5, 11, 6, 3]
    assert tokenizer.encode("</s>d") == [7, 9, 10, 8, 1, 3]
    assert tokenizer.decode([2, 4, 5, 7, 6, 1, 3]) == "xy z"
    assert not tokenizer.can_spell(tokenizer.encode("def"))


def test_words_of_moses_need_their_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    with pytest.raises(TokenizerError, match="install sacremoses"):
        MosesWords("fr")


def test_words_of_moses_are_split_and_joined() -> None:
    pytest.importorskip("sacremoses")
    words = MosesWords("fr")
    assert words.split("L’eau, c'est « bon » !") == [
        "L&apos;",
        "eau",
        ",",
        "c&apos;",
        "est",
        "&quot;",
        "bon",
        "&quot;",
        "!",
    ]
    assert words.join(["L&apos;", "eau", ",", "oui", "."]) == "L'eau, oui."


def test_settings_without_what_they_need_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match="`moses_languages` must be a source and a target"):
        TokenizerSettings(moses_languages=["en"])
    (tmp_path / "tokenizer.model").write_text("#version: 0.2\na b\n")
    TokenizerSettings(pieces="subword_nmt", prepare="none").save(tmp_path)
    with pytest.raises(TokenizerError, match=r"tokenizer\.model needs vocabulary\.json"):
        Tokenizer.load(tmp_path)
    (tmp_path / "tokenizer.model").unlink()
    TokenizerSettings(pieces="characters", prepare="none").save(tmp_path)
    with pytest.raises(TokenizerError, match=r"must hold tokenizer\.model"):
        Tokenizer.load(tmp_path)
