import dataclasses
import io
from pathlib import Path

import pytest
import sentencepiece

from model.errors import ConfigError, CorpusError, TokenizerError, TrainingError
from model.text.tokenizer import (
    SHARED_FILE,
    SOURCE_FILE,
    TARGET_FILE,
    TOKENIZER_FILES,
    Tokenizer,
    TokenizerSettings,
)
from model.training.config.data import VocabularyConfig, VocabularyKind
from model.training.data.vocabulary import train_tokenizer
from tests.model.training.parallel_text import made_up_pairs

PAIRS = made_up_pairs(200)
SUBWORDS = VocabularyConfig(size=70, byte_fallback=False)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
@pytest.mark.parametrize("shared", [True, False])
def test_subwords_come_back_as_text(tmp_path: Path, kind: str, shared: bool) -> None:
    config = VocabularyConfig(kind=kind, size=70, shared=shared, byte_fallback=False)  # type: ignore[arg-type]
    tokenizer = train_tokenizer(PAIRS, config, target_languages=["fr"], folder=tmp_path)
    assert tokenizer.is_shared is shared
    assert tokenizer.source_vocab_size == tokenizer.target_vocab_size == 70
    assert (tokenizer.pad_id, tokenizer.unk_id, tokenizer.bos_id, tokenizer.eos_id) == (0, 1, 2, 3)
    assert tokenizer.language_tags == {}
    assert tokenizer.decode(tokenizer.encode_target(PAIRS[7][1])) == PAIRS[7][1]
    assert tokenizer.model_files == ((SHARED_FILE,) * 2 if shared else (SOURCE_FILE, TARGET_FILE))
    assert contents(tmp_path).keys() == set(tokenizer.model_files) | {"tokenizer.json"}


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_separate_vocabularies_may_differ_in_size(tmp_path: Path, kind: VocabularyKind) -> None:
    config = VocabularyConfig(kind=kind, shared=False, size=60, target_size=70, byte_fallback=False)
    tokenizer = train_tokenizer(PAIRS, config, target_languages=["fr"], folder=tmp_path)
    assert (tokenizer.source_vocab_size, tokenizer.target_vocab_size) == (60, 70)
    too_large = dataclasses.replace(config, target_size=5000)
    with pytest.raises(CorpusError, match=r"size 5000 .*: `vocabulary\.target_size` must be at most \d+$"):
        train_tokenizer(PAIRS, too_large, target_languages=["fr"], folder=tmp_path)


def test_a_shared_vocabulary_has_one_size() -> None:
    with pytest.raises(ConfigError, match="`target_size` must be left out where one vocabulary is shared"):
        VocabularyConfig(target_size=400)


@pytest.mark.parametrize("kind", ["unigram", "bpe", "word", "char"])
def test_same_text_gives_the_same_files(tmp_path: Path, kind: str) -> None:
    config = VocabularyConfig(kind=kind, size=70, byte_fallback=False)  # type: ignore[arg-type]
    for name in ("a", "b"):
        train_tokenizer(PAIRS, config, target_languages=["fr", "en"], folder=tmp_path / name)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


def test_several_target_languages_make_tags_that_text_cannot_spell(tmp_path: Path) -> None:
    tokenizer = train_tokenizer(PAIRS, SUBWORDS, target_languages=["fr", "en", "fr"], folder=tmp_path)
    assert tokenizer.language_tags == {"en": 4, "fr": 5}
    assert tokenizer.encode("<2en>", target_language="fr").count(4) == 0
    assert tokenizer.encode("dog", target_language="en")[0] == 4


def test_bytes_spell_what_has_no_piece(tmp_path: Path) -> None:
    config = VocabularyConfig(size=330)
    tokenizer = train_tokenizer(PAIRS, config, target_languages=["fr"], folder=tmp_path)
    assert tokenizer.decode(tokenizer.encode_target("chien 犬")) == "chien 犬"


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_required_characters_have_a_piece_however_rare(tmp_path: Path, kind: str) -> None:
    for required in ("", "犬ß"):
        config = VocabularyConfig(kind=kind, size=75, byte_fallback=False, required_characters=required)  # type: ignore[arg-type]
        tokenizer = train_tokenizer(PAIRS, config, target_languages=["fr"], folder=tmp_path)
        assert {"犬", "ß"}.issubset(tokenizer.pieces(range(75))) is bool(required)


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_split_digits_leave_no_piece_with_two(tmp_path: Path, kind: str) -> None:
    pairs = [(f"{source} 2024", f"{target} 2024") for source, target in PAIRS]
    for split in (False, True):
        config = VocabularyConfig(kind=kind, size=65, byte_fallback=False, split_digits=split)  # type: ignore[arg-type]
        tokenizer = train_tokenizer(pairs, config, target_languages=["fr"], folder=tmp_path)
        longest = max(sum(map(str.isdigit, piece)) for piece in tokenizer.pieces(range(65)))
        assert (longest == 1) is split


def test_full_width_forms_stay(tmp_path: Path) -> None:
    pairs = [(source, "你好，世界！") for source, _ in PAIRS]
    config = VocabularyConfig(kind="char", size=500)
    tokenizer = train_tokenizer(pairs, config, target_languages=["zh"], folder=tmp_path)
    assert tokenizer.decode(tokenizer.encode_target("你好！")) == "你好！"


def test_words_below_the_minimum_frequency_are_unknown(tmp_path: Path) -> None:
    pairs = [("Go, Zoë.", "Va !"), ("Go on!", "Va."), ("on Go", "Ça va.")]
    config = VocabularyConfig(
        kind="word", size=1000, shared=False, minimum_frequency=2, lowercase=True, separate_punctuation=True
    )
    tokenizer = train_tokenizer(pairs, config, target_languages=["fr"], folder=tmp_path)
    assert tokenizer.source_pieces(range(tokenizer.source_vocab_size))[4:] == ["▁go", "▁on"]
    assert set(tokenizer.pieces(range(tokenizer.target_vocab_size))[4:]) == {"▁va", "▁."}
    assert tokenizer.encode("GO zoë on") == [4, tokenizer.unk_id, 5, tokenizer.eos_id]


def test_frequencies_do_not_double_in_a_bidirectional_corpus(tmp_path: Path) -> None:
    pairs = [("once", "twice"), ("twice", "once"), ("Twice", "again"), ("again", "Twice")]
    config = VocabularyConfig(kind="word", size=1000, minimum_frequency=2, lowercase=True)
    tokenizer = train_tokenizer(pairs, config, target_languages=["fr", "en"], folder=tmp_path)
    assert tokenizer.pieces(range(tokenizer.target_vocab_size))[6:] == ["▁twice"]


def test_what_comes_more_often_counts_more(tmp_path: Path) -> None:
    config = VocabularyConfig(kind="word", size=20, minimum_frequency=2)
    pairs = [("once", "einmal"), ("einmal", "once"), *[("again", "wieder"), ("wieder", "again")] * 2]
    tokenizer = train_tokenizer(pairs, config, target_languages=["de"], folder=tmp_path)
    words = tokenizer.pieces(range(4, tokenizer.target_vocab_size))
    assert sorted(words) == ["▁again", "▁wieder"]


def test_word_vocabulary_keeps_the_most_frequent_of_size(tmp_path: Path) -> None:
    config = VocabularyConfig(kind="word", size=9)
    tokenizer = train_tokenizer(PAIRS, config, target_languages=["fr"], folder=tmp_path)
    assert tokenizer.source_vocab_size == 9


def test_sample_bounds_what_is_learned_from(tmp_path: Path) -> None:
    config = VocabularyConfig(kind="word", size=1000, max_sentences=10)
    pairs = [(f"a{number}", f"b{number}") for number in range(50)]
    tokenizer = train_tokenizer(iter(pairs), config, target_languages=["fr"], folder=tmp_path)
    pieces = tokenizer.source_pieces(range(4, tokenizer.source_vocab_size))
    assert len(pieces) == 20
    assert {f"▁a{number}" for number in range(10)} != {piece for piece in pieces if piece.startswith("▁a")}


def test_kinds_of_files_do_not_mix(tmp_path: Path) -> None:
    train_tokenizer(PAIRS, SUBWORDS, target_languages=["fr"], folder=tmp_path)
    separate = VocabularyConfig(size=70, shared=False, byte_fallback=False)
    assert not train_tokenizer(PAIRS, separate, target_languages=["fr"], folder=tmp_path).is_shared


@pytest.mark.parametrize(
    ("pairs", "config", "complaint"),
    [
        ([], SUBWORDS, "no sentence is left"),
        (
            PAIRS,
            VocabularyConfig(size=5000, byte_fallback=False),
            r"size 5000 .*: `vocabulary\.size` must be at most \d+$",
        ),
        (
            PAIRS,
            VocabularyConfig(size=20),
            r"size 20 .*: `vocabulary\.size` must be at least 293, or `vocabulary\.character_coverage` lower",
        ),
        (
            PAIRS,
            VocabularyConfig(kind="word", minimum_frequency=1000),
            r"`vocabulary\.minimum_frequency` must be at most \d+, the count of the most frequent word",
        ),
    ],
)
def test_text_that_does_not_do(
    tmp_path: Path, pairs: list[tuple[str, str]], config: VocabularyConfig, complaint: str
) -> None:
    with pytest.raises(CorpusError, match=complaint) as refusal:
        train_tokenizer(pairs, config, target_languages=["fr"], folder=tmp_path)
    assert "\n" not in str(refusal.value)
    assert contents(tmp_path) == {}


@pytest.mark.parametrize("kind", ["word", "char"])
def test_more_tags_than_a_vocabulary_has_places(tmp_path: Path, kind: str) -> None:
    config = VocabularyConfig(kind=kind, size=8)  # type: ignore[arg-type]
    codes = ["de", "en", "es", "fr", "zh"]
    with pytest.raises(CorpusError, match=r": `vocabulary\.size` must be above 9$"):
        train_tokenizer(PAIRS, config, target_languages=codes, folder=tmp_path)


def test_a_size_that_is_told_is_enough(tmp_path: Path) -> None:
    train_tokenizer(PAIRS, VocabularyConfig(size=293), target_languages=["fr"], folder=tmp_path)


def test_a_refusal_that_nobody_knows_stays_as_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(**_: object) -> None:
        raise RuntimeError("INTERNAL: src/x.cc(1) [a == b] Something new.")

    monkeypatch.setattr(sentencepiece.SentencePieceTrainer, "train", refuse)
    with pytest.raises(CorpusError, match=r"can be learned from this text: Something new\.$"):
        train_tokenizer(PAIRS, SUBWORDS, target_languages=["fr"], folder=tmp_path)


def test_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(TrainingError, match="cannot be written"):
        train_tokenizer(PAIRS, SUBWORDS, target_languages=["fr"], folder=tmp_path / "file" / "tokenizer")


def test_reuse_copies_and_reads_no_text(tmp_path: Path) -> None:
    train_tokenizer(PAIRS, SUBWORDS, target_languages=["fr", "en"], folder=tmp_path / "old")
    reuse = VocabularyConfig(reuse=str(tmp_path / "old"))
    for name in ("new", "old"):
        train_tokenizer(iter(()), reuse, target_languages=["fr", "en"], folder=tmp_path / name)
    assert contents(tmp_path / "new") == contents(tmp_path / "old")
    assert contents(tmp_path / "new").keys() <= set(TOKENIZER_FILES)


def test_reuse_of_a_tokenizer_without_the_tags(tmp_path: Path) -> None:
    train_tokenizer(PAIRS, SUBWORDS, target_languages=["fr"], folder=tmp_path / "old")
    reuse = VocabularyConfig(reuse=str(tmp_path / "old"))
    train_tokenizer([], reuse, target_languages=["de"], folder=tmp_path / "one direction needs no tag")
    with pytest.raises(TrainingError, match="no tag for en, fr"):
        train_tokenizer([], reuse, target_languages=["fr", "en"], folder=tmp_path / "new")
    with pytest.raises(TokenizerError):
        train_tokenizer(
            [], VocabularyConfig(reuse=str(tmp_path)), target_languages=["fr"], folder=tmp_path / "new"
        )


def test_reused_special_ids_are_the_models_own(tmp_path: Path) -> None:
    model = io.BytesIO()
    sentences = (source for source, _ in PAIRS)
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=sentences, model_writer=model, vocab_size=60,
        pad_id=3, unk_id=0, bos_id=1, eos_id=2, minloglevel=2,
    )  # fmt: skip
    (tmp_path / SHARED_FILE).write_bytes(model.getvalue())
    TokenizerSettings().save(tmp_path)
    reuse = VocabularyConfig(reuse=str(tmp_path))
    train_tokenizer([], reuse, target_languages=["fr"], folder=tmp_path / "new")
    tokenizer = Tokenizer.load(tmp_path / "new")
    assert (tokenizer.pad_id, tokenizer.unk_id, tokenizer.bos_id, tokenizer.eos_id) == (3, 0, 1, 2)
