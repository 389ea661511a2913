import dataclasses
import json
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path
from threading import Barrier, BrokenBarrierError

import numpy as np
import pytest

from model.errors import CorpusError
from model.training.config.sections import AugmentationConfig, CleaningConfig, CorpusConfig
from model.training.data import dataset_builder, tokenisation
from model.training.data.dataset import INDEX_FILE, PairDataset
from model.training.data.dataset_builder import data_fingerprint, prepare
from model.training.data.tokenisation import tokenised_chunks
from model.training.distributed.world import SINGLE_PROCESS, World
from tests.model.training.parallel_text import tokenizer_of, write_corpus

COUNT = 40
CLEANING = CleaningConfig()


@pytest.fixture
def corpus(tmp_path: Path) -> CorpusConfig:
    return write_corpus(tmp_path / "a.tsv", COUNT, bidirectional=True, weight=2.0)


@pytest.fixture
def tokenizer_folder(corpus: CorpusConfig, tmp_path: Path) -> Path:
    tokenizer_of(corpus, tmp_path / "tokenizer")
    return tmp_path / "tokenizer"


def age(folder: Path) -> int:
    return (folder / INDEX_FILE).stat().st_mtime_ns


def test_pairs_are_there_in_both_directions(
    corpus: CorpusConfig, tokenizer_folder: Path, tmp_path: Path
) -> None:
    dataset = prepare([corpus], tokenizer_folder, CLEANING, tmp_path / "data" / "pairs")
    assert len(dataset) == 2 * COUNT
    directions = [(section.source_language, section.target_language) for section in dataset.index.sections]
    assert directions == [("en", "fr"), ("fr", "en")]
    source, target = dataset.source_rows(np.array([3])), dataset.target_rows(np.array([COUNT + 3]))
    assert source.tokens[1:].tolist() == target.tokens.tolist()
    assert source.lengths == dataset.source_lengths[3]
    assert target.lengths == dataset.target_lengths[COUNT + 3]
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
    first = age(folder)
    Path(corpus.path).touch()
    prepare([corpus], tokenizer_folder, CLEANING, folder)
    assert age(folder) == first

    with Path(corpus.path).open("a") as file:
        file.write("One more dog.\tUn chien de plus.\n")
    assert len(prepare([corpus], tokenizer_folder, CLEANING, folder)) == 2 * COUNT + 2
    assert age(folder) != first


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
    with pytest.raises(CorpusError, match=r"nothing is left .* 3 wrong script"):
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


@pytest.mark.parametrize("size", [2, 3, 20])
def test_several_processes_write_what_one_writes(
    corpus: CorpusConfig, tokenizer_folder: Path, tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dataset_builder, "tokenised_chunks", partial(tokenised_chunks, chunk_size=7))
    monkeypatch.setattr(tokenisation, "MOST_SENTENCES", 45)
    other = write_corpus(tmp_path / "b.tsv", COUNT + 15, bidirectional=True)
    nouns = {"dog": "chien", "cat": "chat", "house": "maison", "tree": "arbre", "road": "route"}
    with Path(other.path).open("a") as file:
        for number, (english, french) in product(range(70, 80), nouns.items()):
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
