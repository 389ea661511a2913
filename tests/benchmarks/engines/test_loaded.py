"""Our engine as the benchmark drives it, and the process that it has of its own."""

from pathlib import Path

import pytest

from benchmarks.engines import ENGINES, EngineSpec
from benchmarks.engines.loaded import torch_reference
from benchmarks.engines.process import EngineProcess
from benchmarks.engines.weights import FIRST_WORD, SHAPES, random_checkpoint
from benchmarks.harness.texts import random_sentences
from model.decode_request import DecodeOptions

GREEDY = DecodeOptions(strategy="greedy", max_length=7)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_checkpoint(tmp_path_factory.mktemp("random") / "tiny", "tiny", seed=1)


@pytest.mark.parametrize(("threads", "batch_size"), [(1, 3), (2, 3), (2, 50)])
def test_translations_do_not_depend_on_threads_or_batches(
    folder: Path, threads: int, batch_size: int
) -> None:
    sources = random_sentences(SHAPES["tiny"], 10, tokens=6, seed=1)
    alone = torch_reference(folder, "float32", 1, "cpu").decode(sources, GREEDY, 1)
    assert torch_reference(folder, "float32", threads, "cpu").decode(sources, GREEDY, batch_size) == alone


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


def test_a_misspelt_engine_is_an_error_and_not_ours(folder: Path) -> None:
    with pytest.raises(KeyError, match="dragoman-nativ"):
        EngineSpec(engine="dragoman-nativ", precision="float32", devices=("cpu",)).load(folder, 1, "cpu")
