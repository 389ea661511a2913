"""Pieces and ids: SentencePiece models, characters, and subword-nmt's pairs."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from model.errors import TokenizerError
from model.text.piece_models import MosesWords, SentencePieceModel, SubwordNmtModel
from model.text.tokenizer import Tokenizer, TokenizerSettings, write_tokenizer
from tests.model.text.processor_time import at_most

TrainModel = Callable[..., bytes]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tokenizer.model"


def test_special_ids_are_those_of_the_file(path: Path, train_model: TrainModel) -> None:
    path.write_bytes(train_model(unk_id=0, pad_id=3, bos_id=1, eos_id=2))
    model = SentencePieceModel(path)
    assert (model.pad_id, model.bos_id, model.eos_id, model.unk_id) == (3, 1, 2, 0)


@pytest.mark.parametrize("name", ["pad", "bos", "eos"])
def test_a_model_without_a_special_id_is_refused_by_name(
    path: Path, train_model: TrainModel, name: str
) -> None:
    path.write_bytes(train_model(**{f"{name}_id": -1}))
    with pytest.raises(TokenizerError, match=rf"tokenizer\.model must have a {name} id"):
        SentencePieceModel(path)


@pytest.mark.parametrize("content", [b"", b"not a model", b"\x00" * 1000])
def test_a_file_that_is_no_model_is_refused_by_name(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(TokenizerError, match=r"tokenizer\.model is not a SentencePiece model"):
        SentencePieceModel(path)


def test_a_missing_or_cut_model_is_refused_by_name(path: Path, train_model: TrainModel) -> None:
    with pytest.raises(TokenizerError, match=r"cannot read .*tokenizer\.model: No such file"):
        SentencePieceModel(path)
    content = train_model()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(TokenizerError, match=r"tokenizer\.model"):
        SentencePieceModel(path)


def test_only_control_symbols_can_be_tags(path: Path, train_model: TrainModel) -> None:
    path.write_bytes(train_model())
    model = SentencePieceModel(path)
    for piece in ("<2de>", "<unk>", "▁"):
        with pytest.raises(TokenizerError, match="as a control symbol"):
            model.require_control(piece)


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_scored_pieces_are_those_that_text_is_cut_into(
    path: Path, train_model: TrainModel, kind: str
) -> None:
    path.write_bytes(train_model(model_type=kind))
    model = SentencePieceModel(path)
    scored = model.scored_pieces()
    everything = model.pieces(range(model.size))
    assert all(everything[id_] == piece for id_, (piece, _) in scored.items())
    left_out = {piece for id_, piece in enumerate(everything) if id_ not in scored}
    assert left_out == {piece for piece in everything if piece[0] == "<"}  # special ones, tags, bytes
    scores = [score for _, score in scored.values()]
    assert scores == sorted(scores, reverse=True)
    assert all(score.is_integer() for score in scores) == (kind == "bpe")


def test_a_rare_letter_of_a_known_script_is_not_foreign(path: Path, train_model: TrainModel) -> None:
    """Most words of Chinese are of two letters, and a vocabulary may well lack both."""
    path.write_bytes(train_model(("天地玄黄宇宙洪荒日月盈昃辰宿列张寒来暑往秋收冬藏", "π")))
    model = SentencePieceModel(path)
    assert not {*"葡萄"} & model.characters
    texts = ["天地", "葡萄", "葡", "葡 π", "ぶどう", "виноград", "👍"]
    assert [text for text in texts if model.is_mostly_foreign(model.encode(text))] == texts[4:]


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
    model = subword_nmt(tmp_path)
    with at_most(seconds=5):
        assert len(model.encode("xy" * 10_000)) == 20_000


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
    expected = ["L&apos;", "eau", ",", "c&apos;", "est", "&quot;", "bon", "&quot;", "!"]
    assert words.split("L’eau, c'est « bon » !") == expected
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
