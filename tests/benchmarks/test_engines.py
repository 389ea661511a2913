"""Our engine as the benchmark drives it, and the process that it has of its own."""

from pathlib import Path

import click
import pytest

from benchmarks.engines import ENGINES, EngineProcess, choose, torch_reference
from benchmarks.harness.texts import random_sentences
from benchmarks.weights import FIRST_WORD, SHAPES, random_checkpoint
from model.decode_request import DecodeOptions

GREEDY = DecodeOptions(strategy="greedy", max_length=7)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_checkpoint(tmp_path_factory.mktemp("random") / "tiny", "tiny", seed=1)


def test_translations_do_not_depend_on_threads_or_batches(folder: Path) -> None:
    sources = random_sentences(SHAPES["tiny"], 5, tokens=6, seed=1)
    alone = torch_reference(folder, "float32", 1, "cpu").decode(sources, GREEDY, 1)
    threads = torch_reference(folder, "float32", 2, "cpu")
    assert [threads.decode(sources, GREEDY, batch_size) for batch_size in (2, 50)] == [alone, alone]


def test_a_random_network_writes_words_up_to_the_limit_in_a_process_as_well(folder: Path) -> None:
    sources = random_sentences(SHAPES["tiny"], 5, tokens=6, seed=1)
    translations = torch_reference(folder, "float32", 1, "cpu").decode(sources, GREEDY, 5)
    assert [len(ids) for ids in translations] == [7] * 5
    assert min(map(min, translations)) >= FIRST_WORD
    assert len(set(translations)) == 5
    with EngineProcess(ENGINES["dragoman-torch-float32"], folder, threads=1) as apart:
        answers, seconds = apart.decode(sources, GREEDY, 5)
    assert answers == translations
    assert seconds > 0


def test_ours_comes_first_and_must_be_given() -> None:
    chosen, missing = choose(["ctranslate2-int8", "dragoman-torch-int8", "dragoman-graphs-float32"], "cpu")
    assert [each.name for each in chosen] == ["dragoman-torch-int8", "ctranslate2-int8"]
    assert missing == ["dragoman-graphs-float32"]
    with pytest.raises(click.UsageError, match="--engine must name one of"):
        choose(["ctranslate2-int8"], "cpu")
