import dataclasses
import json
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice, product
from pathlib import Path
from threading import Barrier, BrokenBarrierError

import numpy as np
import pytest

from model.errors import CorpusError
from model.text.tokenizer import Tokenizer
from model.training.config_sections import AugmentationConfig, CleaningConfig, CorpusConfig
from model.training.data import tokenisation
from model.training.data.cleaning import CleaningReport
from model.training.data.dataset import INDEX_FILE, PairDataset
from model.training.data.tokenisation import (
    TokenChunk,
    TokenPair,
    data_fingerprint,
    directed_sentences,
    prepare,
    tokenised_chunks,
)
from model.training.distributed.world import SINGLE_PROCESS, World
from tests.model.training.parallel_text import made_up_pairs, tokenizer_of, write_corpus

COUNT = 30
PAIRS = made_up_pairs(COUNT)
CLEANING = CleaningConfig()
NOUNS = {"dog": "chien", "cat": "chat", "house": "maison", "tree": "arbre", "road": "route"}


@pytest.fixture
def corpus(tmp_path: Path) -> CorpusConfig:
    return write_corpus(tmp_path / "a.tsv", COUNT, bidirectional=True, weight=2.0)


@pytest.fixture
def tokenizer(corpus: CorpusConfig, tmp_path: Path) -> Tokenizer:
    return tokenizer_of(corpus, tmp_path / "tokenizer")


@pytest.fixture
def tokenizer_folder(tokenizer: Tokenizer, tmp_path: Path) -> Path:
    return tmp_path / "tokenizer"


def pairs_of(chunk: TokenChunk) -> list[TokenPair]:
    """The pairs of a chunk one by one."""
    sources, targets = (
        [list(islice(tokens, length)) for length in rows.lengths]
        for rows, tokens in ((rows, iter(rows.tokens.tolist())) for rows in (chunk.sources, chunk.targets))
    )
    return [TokenPair(*sides) for sides in zip(sources, targets, strict=True)]


def test_bidirectional_corpus_gives_both_orders(corpus: CorpusConfig) -> None:
    expected = [pair for source, target in PAIRS for pair in ((source, target), (target, source))]
    assert list(directed_sentences([dataclasses.replace(corpus, weight=1.0)], CLEANING)) == expected


@pytest.mark.parametrize(("weight", "least", "most"), [(3.0, 900, 900), (0.1, 10, 60), (1.5, 400, 500)])
def test_sentences_come_as_often_as_an_epoch_draws_them(
    tmp_path: Path, weight: float, least: int, most: int
) -> None:
    corpus = write_corpus(tmp_path / "b.tsv", 300, weight=weight, bidirectional=True)
    other = write_corpus(tmp_path / "c.tsv", 20, seed=1)
    sentences = list(directed_sentences([corpus, other], CLEANING))
    assert sentences == list(directed_sentences([corpus, other], CLEANING))
    sentences = sentences[:-20]
    forward, backward = sentences[::2], sentences[1::2]
    assert least <= len(forward) <= most
    assert [(target, source) for source, target in forward] == backward


def test_small_weights_alone_lose_no_sentence(tmp_path: Path) -> None:
    corpora = [write_corpus(tmp_path / f"{w}.tsv", 300, seed=int(8 * w), weight=w) for w in (0.5, 0.125)]
    sentences = list(directed_sentences(corpora, CLEANING))
    assert sentences[:300] == made_up_pairs(300, seed=4)
    assert 40 < len(sentences[300:]) < 120


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("languages", [["en", "fr"], ["fr"]])
def test_a_direction_is_as_if_it_were_tokenised_alone(
    corpus: CorpusConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared: bool, languages: list[str]
) -> None:
    """With tags and without."""
    tokenizer = tokenizer_of(corpus, tmp_path / "other", languages=languages, shared=shared)
    assert bool(tokenizer.language_tags) == (len(languages) > 1)
    report = CleaningReport()
    monkeypatch.setattr(tokenisation, "CHUNK_SIZE", 20)
    chunks = list(tokenised_chunks([corpus], tokenizer, CLEANING, report))
    assert [(chunk.direction, len(pairs_of(chunk))) for chunk in chunks] == [
        (("en", "fr"), 20), (("fr", "en"), 20), (("en", "fr"), 10), (("fr", "en"), 10)
    ]  # fmt: skip
    assert report.kept == COUNT
    for turn, directed in ((1, chunks[::2]), (-1, chunks[1::2])):
        for pair, texts in zip((pair for chunk in directed for pair in pairs_of(chunk)), PAIRS, strict=True):
            source, target = texts[::turn]
            assert pair.source == tokenizer.encode(source, target_language=directed[0].direction[1])
            assert pair.target == tokenizer.encode_target(target)


def english_and_french(file: Path, rows: Iterable[tuple[str, str]], weight: float = 1.0) -> CorpusConfig:
    file.write_text("".join(f"{english}\t{french}\n" for english, french in rows))
    languages = {"source_language": "en", "target_language": "fr"}
    return CorpusConfig(path=str(file), **languages, bidirectional=True, weight=weight)


def test_what_sources_spell_out_is_spelt_out_in_either_direction(tmp_path: Path) -> None:
    known = english_and_french(tmp_path / "known.tsv", [("Figure 1 of 2", "Figure 1 sur 2")] * 5)
    tokenizer = tokenizer_of(known, tmp_path / "made", byte_fallback=False)
    rows = [("Figure 1", "Figure １"), ("Figure ２", "Figure 2"), ("Figure 2", "Figure 2")]
    corpus = english_and_french(tmp_path / "a.tsv", rows)
    cleaning = CleaningConfig(drop_copies=False, deduplicate=False)
    chunks = tokenised_chunks([corpus], tokenizer, cleaning, CleaningReport())
    for chunk, turned in zip(chunks, (False, True), strict=True):
        for row, pair in zip(rows, pairs_of(chunk), strict=True):
            source, target = reversed(row) if turned else row
            assert pair.source == tokenizer.encode(source, target_language=chunk.direction[1])
            assert pair.target == tokenizer.encode_target(target)


def test_pair_too_long_in_tokens_is_dropped_in_both_directions(
    corpus: CorpusConfig, tokenizer: Tokenizer
) -> None:
    limit = 40
    fitting = [pair for pair in PAIRS if max(map(len, pair)) + 3 <= limit]  # tag, word mark, EOS
    report = CleaningReport()
    cleaning = CleaningConfig(max_length_tokens=limit)
    forward, backward = tokenised_chunks([corpus], tokenizer, cleaning, report)
    assert 0 < len(fitting) < COUNT
    assert len(pairs_of(forward)) == len(pairs_of(backward)) == len(fitting)
    assert report == CleaningReport(kept=len(fitting), dropped={"too_long": COUNT - len(fitting)})


def test_altered_copies_follow_their_chunk(corpus: CorpusConfig, tokenizer: Tokenizer) -> None:
    alterations = AugmentationConfig(no_final_stop=1, joined=1)
    report = CleaningReport()
    forward, backward, copies, turned = tokenised_chunks([corpus], tokenizer, CLEANING, report, alterations)
    assert (report.kept, len(pairs_of(forward)), len(pairs_of(backward))) == (COUNT, COUNT, COUNT)
    assert [chunk.direction for chunk in (copies, turned)] == [("en", "fr"), ("fr", "en")]
    assert copies.kinds == {"no_final_stop": COUNT, "joined": COUNT}
    english, french = (side.removesuffix(".") for side in PAIRS[0])
    assert pairs_of(copies)[0].source == tokenizer.encode(english, target_language="fr")
    assert pairs_of(copies)[0].target == tokenizer.encode_target(french)
    assert pairs_of(turned)[0].source == tokenizer.encode(french, target_language="en")
    assert pairs_of(turned)[0].target == tokenizer.encode_target(english)
    assert copies.weight == corpus.weight


def test_copies_that_cannot_be_used_are_left_out(corpus: CorpusConfig, tokenizer: Tokenizer) -> None:
    """Too long for the network, or with characters that the vocabulary lacks."""
    longest = max(len(side) for pair in PAIRS for side in pair) + 3
    cleaning = CleaningConfig(max_length_tokens=longest)
    alterations = AugmentationConfig(joined=1, capitals=1, copied=3)
    chunks = list(tokenised_chunks([corpus], tokenizer, cleaning, CleaningReport(), alterations))
    copies = [pair for chunk in chunks[2:] for pair in pairs_of(chunk)]
    kinds = {kind for chunk in chunks for kind in chunk.kinds}
    assert "copied" in kinds
    assert "capitals" not in kinds  # this corpus has small letters alone, and so have its pieces
    assert all(max(map(len, pair)) <= longest for pair in copies)
    assert not any(tokenizer.unk_id in side for pair in copies for side in pair)


def test_words_follow_their_corpus_with_a_weight_of_their_own(tmp_path: Path) -> None:
    when = {"again": "Encore", "now": "Voici"}
    rows = (
        (f"{number} the {e} {then}.", f"{when[then]} {number} le {f}.")
        for (e, f), then, number in product(NOUNS.items(), when, range(20, 25))
    )
    corpus = english_and_french(tmp_path / "words.tsv", rows, weight=2.0)
    tokenizer = tokenizer_of(corpus, tmp_path / "tokenizer")
    alterations = AugmentationConfig(words=0.25)
    chunks = list(tokenised_chunks([corpus], tokenizer, CLEANING, CleaningReport(), alterations))
    assert [chunk.weight for chunk in chunks] == [2.0, 2.0, 0.5, 0.5]
    assert set(chunks[2].kinds) == {"words"}
    dog = (tokenizer.encode("dog", target_language="fr"), tokenizer.encode_target("chien"))
    chat = (tokenizer.encode("chat", target_language="en"), tokenizer.encode_target("cat"))
    assert dog in pairs_of(chunks[2])
    assert chat in pairs_of(chunks[3])


def test_pairs_are_there_in_both_directions(
    corpus: CorpusConfig, tokenizer_folder: Path, tmp_path: Path
) -> None:
    dataset = prepare([corpus], tokenizer_folder, CLEANING, tmp_path / "data" / "pairs")
    assert len(dataset) == 2 * COUNT
    directions = [(section.source_language, section.target_language) for section in dataset.index.sections]
    assert directions == [("en", "fr"), ("fr", "en")]
    source, target = dataset.sources.rows(np.array([3])), dataset.targets.rows(np.array([COUNT + 3]))
    assert source.tokens[1:].tolist() == target.tokens.tolist()
    assert source.lengths == dataset.sources.lengths[3]
    assert target.lengths == dataset.targets.lengths[COUNT + 3]
    assert set(dataset.weights) == {2.0}
    assert dataset.index.kept == COUNT
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["pairs"]


def test_several_corpora_keep_their_weights(
    corpus: CorpusConfig, tokenizer_folder: Path, tmp_path: Path
) -> None:
    other = write_corpus(tmp_path / "b.tsv", COUNT + 5, weight=0.5)
    dataset = prepare([corpus, other], tokenizer_folder, CLEANING, tmp_path / "pairs")
    assert dataset.weights.tolist() == [2.0] * 2 * COUNT + [0.5] * 5
    assert dataset.index.dropped == {"duplicate": COUNT}


def test_work_is_reused_until_something_changes(
    corpus: CorpusConfig, tokenizer_folder: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "pairs"
    prepare([corpus], tokenizer_folder, CLEANING, folder)
    first = (folder / INDEX_FILE).stat().st_mtime_ns
    Path(corpus.path).touch()
    prepare([corpus], tokenizer_folder, CLEANING, folder)
    assert (folder / INDEX_FILE).stat().st_mtime_ns == first
    with Path(corpus.path).open("a") as file:
        file.write("One more dog.\tUn chien de plus.\n")
    assert len(prepare([corpus], tokenizer_folder, CLEANING, folder)) == 2 * COUNT + 2


def test_half_written_work_is_done_again(
    corpus: CorpusConfig, tokenizer_folder: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "pairs"
    unfinished = tmp_path / ".pairs.writing"
    unfinished.mkdir()
    (unfinished / "left behind").touch()
    folder.mkdir()
    (folder / INDEX_FILE).write_text("{")
    assert len(prepare([corpus], tokenizer_folder, CLEANING, folder)) == 2 * COUNT
    (folder / "source.tokens").unlink()
    assert len(prepare([corpus], tokenizer_folder, CLEANING, folder)) == 2 * COUNT
    assert not unfinished.exists()


def test_fingerprint_is_of_contents_and_settings(
    corpus: CorpusConfig, tokenizer_folder: Path, tmp_path: Path
) -> None:
    moved = Path(corpus.path).rename(tmp_path / "moved.tsv")
    corpora = {"as it was": dataclasses.replace(corpus, path=str(moved))}
    first = data_fingerprint(list(corpora.values()), tokenizer_folder, CLEANING)
    moved = moved.rename(tmp_path / "again.tsv")
    corpus = dataclasses.replace(corpus, path=str(moved))
    assert data_fingerprint([corpus], tokenizer_folder, CLEANING) == first

    settings = tokenizer_folder / "tokenizer.json"
    others = {
        data_fingerprint([dataclasses.replace(corpus, weight=3.0)], tokenizer_folder, CLEANING),
        data_fingerprint([corpus], tokenizer_folder, CleaningConfig(check_script=False)),
        data_fingerprint([corpus, corpus], tokenizer_folder, CLEANING),
    }
    settings.write_text(json.dumps(json.loads(settings.read_text()) | {"lowercase": True}))
    others.add(data_fingerprint([corpus], tokenizer_folder, CLEANING))
    assert len(others | {first}) == 5


def test_altered_copies_are_counted_and_belong_to_the_work(
    corpus: CorpusConfig, tokenizer_folder: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "pairs"
    plain = prepare([corpus], tokenizer_folder, CLEANING, folder)
    assert plain.index.augmented == {}
    other_seed = AugmentationConfig(seed=3)
    assert data_fingerprint([corpus], tokenizer_folder, CLEANING, other_seed) == plain.index.fingerprint
    augmentation = AugmentationConfig(no_final_stop=2.0)
    dataset = prepare([corpus], tokenizer_folder, CLEANING, folder, augmentation=augmentation)
    assert dataset.index.augmented == {"no_final_stop": 4 * COUNT}
    assert (dataset.index.kept, len(dataset)) == (COUNT, 6 * COUNT)
    assert dataset.weights.tolist() == [2.0] * 6 * COUNT
    assert dataset.index.fingerprint != plain.index.fingerprint


def test_nothing_left_after_cleaning(tokenizer_folder: Path, tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "b.tsv", 3, target_language="ru")
    with pytest.raises(CorpusError, match=r"nothing is left of .*\.tsv after cleaning: .* 3 wrong script"):
        prepare([corpus], tokenizer_folder, CLEANING, tmp_path / "pairs")
    assert not list(tmp_path.glob("*pairs*"))


def test_full_disk_is_one_line(
    corpus: CorpusConfig, tokenizer_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_space(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("model.training.data.dataset.TokenWriter.append", no_space)
    with pytest.raises(CorpusError, match=r"cannot be written .*No space left"):
        prepare([corpus], tokenizer_folder, CLEANING, tmp_path / "pairs")
    assert not list(tmp_path.glob("*pairs*"))


def test_folder_that_holds_no_dataset(corpus: CorpusConfig, tokenizer_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="holds no tokenised corpus"):
        PairDataset(tmp_path)
    prepare([corpus], tokenizer_folder, CLEANING, tmp_path / "pairs")
    (tmp_path / "pairs" / "target.tokens").write_bytes(b"\0\0")
    with pytest.raises(CorpusError, match="holds no tokenised corpus"):
        PairDataset(tmp_path / "pairs")


class ThreadWorld(World):
    """A thread that takes the part of a process."""

    def __init__(self, rank: int, barrier: Barrier) -> None:
        self.rank, self.size, self._barrier = rank, barrier.parties, barrier

    def all_max(self, value: int) -> int:
        self._barrier.wait(10)
        return value


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("size", [2, 20])
def test_several_processes_write_what_one_writes(
    corpus: CorpusConfig, tokenizer_folder: Path, tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokenisation, "CHUNK_SIZE", 7)
    monkeypatch.setattr(tokenisation, "MOST_SENTENCES", 35)
    other = write_corpus(tmp_path / "b.tsv", COUNT + 15, bidirectional=True)
    with Path(other.path).open("a") as file:
        for number, (english, french) in product(range(70, 80), NOUNS.items()):
            file.write(f"{number} the {english} again.\tVoici {number} le {french}.\n")
    lengths = CleaningConfig(max_length_tokens=40)
    augmentation = AugmentationConfig(no_final_stop=0.5, words=0.5)

    def prepared(folder: Path, world: World = SINGLE_PROCESS) -> PairDataset:
        return prepare(
            [corpus, other], tokenizer_folder, lengths, folder, augmentation=augmentation, world=world
        )

    index = prepared(tmp_path / "one").index
    assert {"no_final_stop", "words"} <= index.augmented.keys()
    assert {"duplicate", "too_long"} <= index.dropped.keys()
    barrier = Barrier(size)
    with ThreadPoolExecutor(size) as processes:
        worlds = [ThreadWorld(rank, barrier) for rank in range(size)]
        list(processes.map(lambda world: prepared(tmp_path / "many", world), worlds))
    assert contents(tmp_path / "many") == contents(tmp_path / "one")
    assert not (tmp_path / ".many.parts").exists()


def test_parts_of_other_text_are_not_joined(
    corpus: CorpusConfig, tokenizer_folder: Path, tmp_path: Path
) -> None:
    other = write_corpus(tmp_path / "b.tsv", COUNT, seed=4)
    barrier = Barrier(2)

    def prepared(rank: int) -> PairDataset:
        text = [corpus, other][rank]
        world = ThreadWorld(rank, barrier)
        return prepare([text], tokenizer_folder, CLEANING, tmp_path / "pairs", world=world)

    with ThreadPoolExecutor(2) as processes:
        first = processes.submit(prepared, 0)
        second = processes.submit(prepared, 1)
        with pytest.raises(CorpusError, match="the processes see other files"):
            first.result()
        barrier.abort()
        with pytest.raises(BrokenBarrierError):
            second.result()
