from collections.abc import Callable
from pathlib import Path

import pytest

from model.errors import TokenizerError
from model.text.sentencepiece_model import SentencePieceModel

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


def test_a_cut_model_is_refused(path: Path, train_model: TrainModel) -> None:
    content = train_model()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(TokenizerError, match=r"tokenizer\.model"):
        SentencePieceModel(path)


def test_a_missing_file_is_named(path: Path) -> None:
    with pytest.raises(TokenizerError, match=r"cannot read .*tokenizer\.model: No such file"):
        SentencePieceModel(path)


@pytest.mark.parametrize("piece", ["<2de>", "<unk>", "▁"])
def test_only_control_symbols_can_be_tags(path: Path, train_model: TrainModel, piece: str) -> None:
    path.write_bytes(train_model())
    model = SentencePieceModel(path)
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


@pytest.mark.parametrize(
    ("text", "is_foreign"),
    [
        ("天地", False),
        ("葡萄", False),
        ("葡", False),
        ("葡 π", False),
        ("ぶどう", True),
        ("виноград", True),
        ("👍", True),
    ],
)
def test_a_rare_letter_of_a_known_script_is_not_foreign(
    path: Path, train_model: TrainModel, text: str, is_foreign: bool
) -> None:
    """Most words of Chinese are of two letters, and a vocabulary may well lack both."""
    path.write_bytes(train_model(("天地玄黄宇宙洪荒日月盈昃辰宿列张寒来暑往秋收冬藏", "π")))
    model = SentencePieceModel(path)
    assert not {*"葡萄"} & model.characters
    assert model.is_mostly_foreign(model.encode(text)) is is_foreign
