"""The recipe of the embedded checkpoint: what its two stages train on, and that they fit together."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from model.checkpoint.folder import load_checkpoint
from model.network.parameters import count_parameters, parameter_shapes
from model.training.train_config import TrainConfig, load_train_config
from tests.embedded import EMBEDDED, RECIPE, ROOT

FILES = (RECIPE / "first.toml", RECIPE / "second.toml")
WORK = ROOT / "runs" / "everyday"
FIRST, SECOND = load_train_config(FILES[:1], {}), load_train_config(FILES, {})
CONTINUED = load_train_config((FILES[0], RECIPE / "continue.toml"), {})
CHANGED = {
    "corpora": None,
    "vocabulary": {"reuse"},
    "objective": {"r_drop"},
    "optimisation": {"learning_rate", "average_last"},
    "schedule": {"warmup_steps"},
    "validation": {"every"},
    "run": {"folder", "start_from", "max_steps", "seed"},
}


@pytest.mark.parametrize("stage", [FIRST, SECOND, CONTINUED], ids=["first", "second", "continued"])
def test_each_stage_trains_english_with_four_languages_both_ways(stage: TrainConfig) -> None:
    others = {"fr", "de", "es", "zh"}
    assert set(stage.pairs) == {("en", code) for code in others} | {(code, "en") for code in others}


@pytest.mark.parametrize("stage", [FIRST, SECOND, CONTINUED], ids=["first", "second", "continued"])
def test_no_stage_trains_on_validation_or_test_text(stage: TrainConfig) -> None:
    names = {Path(corpus.path).name for corpus in stage.corpora}
    assert {name for name in names if "valid" in name or "test" in name} == set()
    assert {Path(corpus.path).name for corpus in stage.validation_corpora} == {"valid.tsv.gz"}


def test_the_second_stage_continues_the_first() -> None:
    first, second = FIRST.to_dict(), SECOND.to_dict()
    assert changed(first, second) == CHANGED
    assert second["corpora"][: len(first["corpora"])] == first["corpora"]
    folder = Path(FIRST.run.folder)
    assert Path(SECOND.run.start_from or "") == folder / "checkpoints" / "last"
    assert Path(SECOND.vocabulary.reuse or "") == folder / "tokenizer"


def test_the_embedded_checkpoint_can_be_trained_further() -> None:
    embedded = load_checkpoint(EMBEDDED)
    size = embedded.config.source_vocab_size
    network = CONTINUED.network.transformer(source_vocab_size=size, target_vocab_size=size)
    assert parameter_shapes(network) == parameter_shapes(embedded.config)
    assert {Path(CONTINUED.run.start_from or ""), Path(CONTINUED.vocabulary.reuse or "")} == {EMBEDDED}


def test_everything_that_is_written_lies_in_one_folder() -> None:
    written = [Path(stage.run.folder) for stage in (FIRST, SECOND, CONTINUED)]
    written += [Path(corpus.path) for corpus in SECOND.corpora + SECOND.validation_corpora]
    assert [path for path in written if not path.is_relative_to(WORK)] == []


def test_its_checkpoint_in_int8_has_less_than_30_megabytes() -> None:
    size = FIRST.vocabulary.size
    shapes = parameter_shapes(FIRST.network.transformer(source_vocab_size=size, target_vocab_size=size))
    rows = sum(shape[0] for shape in shapes.values() if len(shape) == 2)
    assert 26e6 < count_parameters(shapes) + 4 * rows < 29e6  # a scale for each row, and 0.5 MB of tokenizer


def test_the_script_asks_for_the_data() -> None:
    result = subprocess.run(["bash", RECIPE / "train.sh"], capture_output=True, text=True, check=False)
    assert (result.returncode, "the folder with tatoeba-en-fr" in result.stderr) == (1, True)


def changed(before: dict[str, Any], after: dict[str, Any]) -> dict[str, set[str] | None]:
    """The names of differing values by section; None for a list."""
    return {
        name: None
        if isinstance(before[name], list)
        else {key for key in before[name] if before[name][key] != after[name][key]}
        for name in before
        if before[name] != after[name]
    }
