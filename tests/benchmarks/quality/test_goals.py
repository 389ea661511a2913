"""Each goal has a recipe and a test set that no recipe reads; one command leads to its report."""

import gzip
import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from benchmarks.quality.goals import GOALS, Goal, goals_of, main, trained_goals
from benchmarks.quality.runs import UNFINISHED, read_recipe, train
from model.checkpoint.folder import load_checkpoint
from tests.model.training.parallel_text import made_up_pairs

SMALLER = """
[vocabulary]
kind = "char"
size = 64
byte_fallback = false
[batches]
max_tokens = 800
[network]
model_dim = 16
num_heads = 2
num_encoder_layers = 1
num_decoder_layers = 1
ffn_dim = 16
[schedule]
warmup_steps = 2
[validation]
every = 3
max_sentences = 4
samples = 0
[run]
max_steps = 6
save_every = 1
log_every = 1
precision = "float32"
device = "cpu"
plots = false
[decoding]
max_length = 5
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data" / "multi30k"
    folder.mkdir(parents=True)
    for seed, (name, count) in enumerate({"train": 60, "val": 6, "test_2016_flickr": 5}.items()):
        columns = zip(*made_up_pairs(count, seed), strict=True)
        for code, texts in zip(("en", "de"), columns, strict=True):
            text = "".join(f"{line}\n" for line in texts)
            (folder / f"{name}.{code}.gz").write_bytes(gzip.compress(text.encode()))
    return folder.parent


def call(tmp_path: Path, data: Path, *more: str, goal: str = "multi30k-de-en") -> Result:
    (tmp_path / "smaller.toml").write_text(SMALLER)
    options = ["--data", str(data), "--run", str(tmp_path / "run"), "--with", str(tmp_path / "smaller.toml")]
    where = ["--device", "cpu", "--output", str(tmp_path / "results"), "--tune-sentences", "2"]
    return CliRunner().invoke(main, [goal, *options, *where, *more])


def test_one_command_given_again_until_it_is_done(tmp_path: Path, data: Path) -> None:
    first = call(tmp_path, data, "--max-minutes", "1e-9")
    assert (first.exit_code, (tmp_path / "results").exists()) == (UNFINISHED, False)
    assert "give the same command again" in first.stderr
    done = call(tmp_path, data)
    assert done.exit_code == 0, done.output + str(done.exception)
    report: dict[str, Any] = json.loads((tmp_path / "results" / "goals-multi30k-en-de.json").read_text())
    of_kind = {kind: [r for r in report["results"] if r["kind"] == kind] for kind in ("goal", "validation")}
    assert [result["name"] for result in of_kind["goal"]] == ["multi30k-de-en", "multi30k-en-de"]
    assert all(result["sentences"] == 5 for result in of_kind["goal"])
    assert all(result["bleu_signature"].startswith("nrefs:1|") for result in of_kind["goal"])
    assert [result["step"] for result in of_kind["validation"]] == [3, 6]
    assert str(tmp_path) not in (tmp_path / "results" / "goals-multi30k-en-de.json").read_text()
    best = load_checkpoint(tmp_path / "run" / "checkpoints" / "best")
    tuning, evaluations = best.provenance["tuning"], best.provenance["evaluations"]
    assert isinstance(tuning, dict)
    assert isinstance(evaluations, dict)
    assert len(tuning["tried"]) == 1 + 18  # the present search, and the grid
    assert set(evaluations) == {"multi30k-de-en", "multi30k-en-de"}
    again = call(tmp_path, data)
    tables = [result.stdout[result.stdout.index("### Goals") :] for result in (done, again)]
    assert (again.exit_code, tables[1]) == (0, tables[0])
    assert load_checkpoint(best.folder).checksum == best.checksum


def one_way(tmp_path: Path) -> str:
    """A file that leaves English → German alone of the recipe's directions."""
    file = tmp_path / "one-way.toml"
    file.write_text(
        "".join(
            f'[[{name}]]\npath = "data/multi30k/{split}.en.gz"\ntarget_path = "data/multi30k/{split}.de.gz"\n'
            'source_language = "en"\ntarget_language = "de"\n'
            for name, split in (("corpora", "train"), ("validation_corpora", "val"))
        )
        + '[card]\nname = "one-way"\n'
    )
    return str(file)


def test_a_run_for_one_direction_is_scored_in_that_one_under_its_own_name(tmp_path: Path, data: Path) -> None:
    done = call(tmp_path, data, "--with", one_way(tmp_path), goal="multi30k-en-de")
    assert done.exit_code == 0, done.output + str(done.exception)
    report = json.loads((tmp_path / "results" / "goals-one-way.json").read_text())
    scored = [result["name"] for result in report["results"] if result["kind"] == "goal"]
    assert scored == ["multi30k-en-de"]


def test_the_load_before_is_not_that_of_the_training(
    tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = 0.25

    def train_and_be_busy(*given: Any) -> object:
        nonlocal load
        load = 9.0
        return train(*given)

    monkeypatch.setattr("os.getloadavg", lambda: (load, load, load))
    monkeypatch.setattr("benchmarks.quality.goals.train", train_and_be_busy)
    done = call(tmp_path, data, "--with", one_way(tmp_path), goal="multi30k-en-de")
    assert "Load average before and after: 0.2 and 9.0." in done.stdout


def test_a_goal_that_the_run_does_not_train_is_refused_before_any_training(
    tmp_path: Path, data: Path
) -> None:
    refused = call(tmp_path, data, "--with", one_way(tmp_path), goal="multi30k-de-en")
    assert refused.exit_code == 2
    assert "(en→de), but is 'multi30k-de-en' instead" in refused.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("goal", GOALS, ids=lambda goal: goal.name)
def test_a_recipe_trains_the_direction_and_never_sees_the_test(goal: Goal) -> None:
    config = read_recipe(goal.recipe, {})
    assert (goal.source, goal.target) in config.pairs
    read = {corpus.path for corpus in (*config.corpora, *config.validation_corpora)}
    assert not any(path.endswith(test) for path in read for test in goal.test)


def test_a_name_of_a_goal_or_a_model_stands_for_the_whole_model() -> None:
    names = ["multi30k-de-en", "multi30k-en-de"]
    for name in names:
        assert [goal.name for goal in goals_of(name)] == names
    assert [goal.name for goal in goals_of("tatoeba-zh-en")] == ["tatoeba-en-zh", "tatoeba-zh-en"]
    with pytest.raises(click.UsageError, match="one of multi30k-de-en, "):
        goals_of("wmt")


def test_names_are_different() -> None:
    assert len({goal.name for goal in GOALS}) == len(GOALS) == 12


def test_the_name_of_a_model_is_that_of_one_of_its_goals() -> None:
    assert {goal.model for goal in GOALS} <= {goal.name for goal in GOALS}


def test_a_goal_stands_for_those_of_its_model_that_are_trained_and_for_none_without_itself() -> None:
    both = (("en", "de"), ("de", "en"))
    assert trained_goals("multi30k-de-en", both) == goals_of("multi30k-de-en")
    assert [goal.name for goal in trained_goals("multi30k-en-de", both[:1])] == ["multi30k-en-de"]
    for name, pairs, shown in (
        ("multi30k-de-en", both[:1], "en→de"),
        ("multi30k-en-de", both[1:], "de→en"),
        ("tatoeba-en-fr", both, "en→de, de→en"),
    ):
        with pytest.raises(click.UsageError, match=rf"GOAL must be .*\({shown}\), but is '{name}'"):
            trained_goals(name, pairs)
