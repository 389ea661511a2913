from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
import sentencepiece

from model.errors import CorpusError, TokenizerError, TrainingError
from model.text.tokenizer import (
    SHARED_FILE,
    SOURCE_FILE,
    TARGET_FILE,
    TOKENIZER_FILES,
    Tokenizer,
    TokenizerSettings,
)
from model.training.config_sections import VocabularyConfig
from model.training.data.vocabulary import train_tokenizer
from tests.model.sentencepieces import train
from tests.model.training.parallel_text import made_up_pairs

PAIRS = made_up_pairs(200)


def trained(
    folder: Path, pairs: Iterable[tuple[str, str]] = PAIRS, languages: Sequence[str] = ("fr",), **values: Any
) -> Tokenizer:
    """A tokenizer of 70 pieces without byte fallback, unless `values` of VocabularyConfig differ."""
    config = VocabularyConfig(**{"size": 70, "byte_fallback": False} | values)
    return train_tokenizer(pairs, config, target_languages=languages, folder=folder)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
@pytest.mark.parametrize("shared", [True, False])
def test_subwords_come_back_as_text(tmp_path: Path, kind: str, shared: bool) -> None:
    tokenizer = trained(tmp_path, kind=kind, shared=shared)
    assert tokenizer.is_shared is shared
    assert tokenizer.source_vocab_size == tokenizer.target_vocab_size == 70
    assert (tokenizer.pad_id, tokenizer.unk_id, tokenizer.bos_id, tokenizer.eos_id) == (0, 1, 2, 3)
    assert tokenizer.language_tags == {}
    assert tokenizer.decode(tokenizer.encode_target(PAIRS[7][1])) == PAIRS[7][1]
    assert tokenizer.model_files == ((SHARED_FILE,) * 2 if shared else (SOURCE_FILE, TARGET_FILE))
    assert contents(tmp_path).keys() == set(tokenizer.model_files) | {"tokenizer.json"}


def test_words_behind_marks_are_learnt_with_a_space(tmp_path: Path) -> None:
    assert trained(tmp_path, space_after_marks=True).settings.space_after_marks


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_separate_vocabularies_may_differ_in_size(tmp_path: Path, kind: str) -> None:
    tokenizer = trained(tmp_path, kind=kind, shared=False, size=60, target_size=70)
    assert (tokenizer.source_vocab_size, tokenizer.target_vocab_size) == (60, 70)
    with pytest.raises(CorpusError, match=r"size 5000 .*: `vocabulary\.target_size` must be at most \d+$"):
        trained(tmp_path, kind=kind, shared=False, size=60, target_size=5000)


@pytest.mark.parametrize("kind", ["unigram", "bpe", "word", "char"])
def test_same_text_gives_the_same_files(tmp_path: Path, kind: str) -> None:
    for name in ("a", "b"):
        trained(tmp_path / name, languages=["fr", "en"], kind=kind)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


def test_several_target_languages_make_tags_that_text_cannot_spell(tmp_path: Path) -> None:
    tokenizer = trained(tmp_path, languages=["fr", "en", "fr"])
    assert tokenizer.language_tags == {"en": 4, "fr": 5}
    assert tokenizer.encode("<2en>", target_language="fr").count(4) == 0
    assert tokenizer.encode("dog", target_language="en")[0] == 4


def test_bytes_spell_what_has_no_piece(tmp_path: Path) -> None:
    tokenizer = trained(tmp_path, size=330, byte_fallback=True)
    assert tokenizer.decode(tokenizer.encode_target("chien 犬")) == "chien 犬"


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_required_characters_have_a_piece_however_rare(tmp_path: Path, kind: str) -> None:
    for required in ("", "犬ß"):
        tokenizer = trained(tmp_path, kind=kind, size=75, required_characters=required)
        assert {"犬", "ß"}.issubset(tokenizer.pieces(range(75))) is bool(required)


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_split_digits_leave_no_piece_with_two(tmp_path: Path, kind: str) -> None:
    pairs = [(f"{source} 2024", f"{target} 2024") for source, target in PAIRS]
    for split in (False, True):
        tokenizer = trained(tmp_path, pairs, kind=kind, size=65, split_digits=split)
        longest = max(sum(map(str.isdigit, piece)) for piece in tokenizer.pieces(range(65)))
        assert (longest == 1) is split


def test_full_width_forms_stay(tmp_path: Path) -> None:
    pairs = [(source, "你好，世界！") for source, _ in PAIRS]
    tokenizer = trained(tmp_path, pairs, ["zh"], kind="char", size=500)
    assert tokenizer.decode(tokenizer.encode_target("你好！")) == "你好！"


def test_words_below_the_minimum_frequency_are_unknown(tmp_path: Path) -> None:
    pairs = [("Go, Zoë.", "Va !"), ("Go on!", "Va."), ("on Go", "Ça va.")]
    words = {"kind": "word", "size": 1000, "minimum_frequency": 2, "lowercase": True}
    tokenizer = trained(tmp_path, pairs, shared=False, separate_punctuation=True, **words)
    assert tokenizer.source_pieces(range(tokenizer.source_vocab_size))[4:] == ["▁go", "▁on"]
    assert set(tokenizer.pieces(range(tokenizer.target_vocab_size))[4:]) == {"▁va", "▁."}
    assert tokenizer.encode("GO zoë on") == [4, tokenizer.unk_id, 5, tokenizer.eos_id]


def test_frequencies_do_not_double_in_a_bidirectional_corpus(tmp_path: Path) -> None:
    pairs = [("once", "twice"), ("twice", "once"), ("Twice", "again"), ("again", "Twice")]
    words = {"kind": "word", "size": 1000, "minimum_frequency": 2, "lowercase": True}
    tokenizer = trained(tmp_path, pairs, ["fr", "en"], **words)
    assert tokenizer.pieces(range(tokenizer.target_vocab_size))[6:] == ["▁twice"]


def test_sample_bounds_what_is_learned_from(tmp_path: Path) -> None:
    pairs = ((f"a{number}", f"b{number}") for number in range(50))
    tokenizer = trained(tmp_path, pairs, kind="word", size=1000, max_sentences=10)
    pieces = tokenizer.source_pieces(range(4, tokenizer.source_vocab_size))
    assert len(pieces) == 20
    assert {f"▁a{number}" for number in range(10)} != {piece for piece in pieces if piece.startswith("▁a")}


TAGGED = ["de", "en", "es", "fr", "zh"]


@pytest.mark.parametrize(
    ("pairs", "languages", "values", "complaint"),
    [
        ([], ["fr"], {}, "no sentence is left"),
        (PAIRS, ["fr"], {"size": 5000}, r"size 5000 .*: `vocabulary\.size` must be at most \d+$"),
        (
            PAIRS,
            ["fr"],
            {"size": 20, "byte_fallback": True},
            r"size 20 .*: `vocabulary\.size` must be at least 293, or `vocabulary\.character_coverage` lower",
        ),
        (
            PAIRS,
            ["fr"],
            {"kind": "word", "minimum_frequency": 1000},
            r"`vocabulary\.minimum_frequency` must be at most \d+, the count of the most frequent word",
        ),
        (PAIRS, TAGGED, {"kind": "word", "size": 8}, r": `vocabulary\.size` must be above 9$"),
        (PAIRS, TAGGED, {"kind": "char", "size": 8}, r": `vocabulary\.size` must be above 9$"),
    ],
)
def test_text_that_does_not_suffice_is_refused_by_the_setting(
    tmp_path: Path, pairs: list[tuple[str, str]], languages: list[str], values: Any, complaint: str
) -> None:
    with pytest.raises(CorpusError, match=complaint) as refusal:
        trained(tmp_path, pairs, languages, **values)
    assert "\n" not in str(refusal.value)
    assert contents(tmp_path) == {}


def test_an_unknown_error_is_passed_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(**_: object) -> None:
        raise RuntimeError("INTERNAL: src/x.cc(1) [a == b] Something new.")

    monkeypatch.setattr(sentencepiece.SentencePieceTrainer, "train", refuse)
    with pytest.raises(CorpusError, match=r"can be learned from this text: Something new\.$"):
        trained(tmp_path)


def test_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(TrainingError, match="cannot be written"):
        trained(tmp_path / "file" / "tokenizer")


def test_reuse_copies_and_reads_no_text(tmp_path: Path) -> None:
    trained(tmp_path / "old", languages=["fr", "en"])
    for name in ("new", "old"):
        trained(tmp_path / name, (), ["fr", "en"], reuse=str(tmp_path / "old"))
    assert contents(tmp_path / "new") == contents(tmp_path / "old")
    assert contents(tmp_path / "new").keys() <= set(TOKENIZER_FILES)


def test_reuse_of_a_tokenizer_without_the_tags(tmp_path: Path) -> None:
    trained(tmp_path / "old")
    old = str(tmp_path / "old")
    trained(tmp_path / "one direction needs no tag", (), ["de"], reuse=old)
    with pytest.raises(TrainingError, match="no tag for en, fr"):
        trained(tmp_path / "new", (), ["fr", "en"], reuse=old)
    with pytest.raises(TokenizerError):
        trained(tmp_path / "new", (), reuse=str(tmp_path))


def test_the_tokenizer_of_an_imported_model_is_not_reused(tmp_path: Path) -> None:
    trained(tmp_path / "old")
    TokenizerSettings(prepare="none").save(tmp_path / "old")
    with pytest.raises(TrainingError, match="of an imported model cannot be trained with"):
        trained(tmp_path / "new", (), ["fr"], reuse=str(tmp_path / "old"))


def test_reused_special_ids_are_the_models_own(tmp_path: Path) -> None:
    (tmp_path / SHARED_FILE).write_bytes(train((source for source, _ in PAIRS), 60, pad_id=3))
    TokenizerSettings().save(tmp_path)
    tokenizer = trained(tmp_path / "new", (), reuse=str(tmp_path))
    assert (tokenizer.pad_id, tokenizer.unk_id, tokenizer.bos_id, tokenizer.eos_id) == (3, 0, 1, 2)


def test_word_vocabulary_keeps_the_most_frequent_of_size(tmp_path: Path) -> None:
    assert trained(tmp_path, kind="word", size=9).source_vocab_size == 9


def test_the_size_that_the_message_names_suffices(tmp_path: Path) -> None:
    trained(tmp_path, size=293, byte_fallback=True)
