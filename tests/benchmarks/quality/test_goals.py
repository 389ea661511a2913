"""Each goal has a recipe and a test set that no recipe reads; one command leads to its report."""

import gzip
import json
import re
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from benchmarks.quality.goals import (
    GOALS,
    ROOT,
    UNFINISHED,
    Goal,
    assigned,
    goals_of,
    main,
    read_recipe,
    trained_goals,
)
from model.checkpoint.folder import load_checkpoint
from model.training.trainer import Trainer
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


def test_one_command_given_again_until_it_is_done(
    tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(Trainer, "run", lambda self: "interrupted")
        first = call(tmp_path, data)
    assert (first.exit_code, (tmp_path / "results").exists()) == (UNFINISHED, False)
    assert "give the same command again" in first.stderr
    done = call(tmp_path, data)
    assert done.exit_code == 0, done.output + str(done.exception)
    report: dict[str, Any] = json.loads((tmp_path / "results" / "goals-multi30k-en-de.json").read_text())
    results = report["results"]
    assert [result["name"] for result in results] == ["multi30k-de-en", "multi30k-en-de"]
    assert all(result["sentences"] == 5 for result in results)
    assert all(result["bleu_signature"].startswith("nrefs:1|") for result in results)
    assert str(tmp_path) not in (tmp_path / "results" / "goals-multi30k-en-de.json").read_text()
    best = load_checkpoint(tmp_path / "run" / "checkpoints" / "best")
    tuning, evaluations = best.provenance["tuning"], best.provenance["evaluations"]
    assert isinstance(tuning, dict)
    assert isinstance(evaluations, dict)
    assert len(tuning["tried"]) == 1 + 18  # the present search, and the grid
    assert set(evaluations) == {"multi30k-de-en", "multi30k-en-de"}
    with monkeypatch.context() as patched:
        patched.setattr("benchmarks.quality.goals.try_searches", None)
        again = call(tmp_path, data)
    assert again.exit_code == 0, again.output + str(again.exception)
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


def test_a_goal_that_the_run_does_not_train_is_refused_before_any_training(
    tmp_path: Path, data: Path
) -> None:
    refused = call(tmp_path, data, "--with", one_way(tmp_path), goal="multi30k-de-en")
    assert refused.exit_code == 2
    assert "(en→de), but is 'multi30k-de-en' instead" in refused.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("goal", GOALS, ids=lambda goal: goal.name)
def test_a_recipe_trains_the_direction_and_never_sees_the_test(goal: Goal) -> None:
    config = read_recipe([goal.recipe], {})
    assert (goal.source, goal.target) in config.pairs
    read = {corpus.path for corpus in (*config.corpora, *config.validation_corpora)}
    assert not any(path.endswith(test) for path in read for test in goal.test)


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


RECIPES = sorted((ROOT / "examples" / "goals").glob("*-en-*.toml"))
LAID_OVER = {"multi30k": "cpu-multi30k.toml", "tatoeba": "cpu-tatoeba.toml"}


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_every_recipe_works_as_it_is_and_on_a_cpu(recipe: Path) -> None:
    assert len(RECIPES) == 6
    config = read_recipe([recipe], {})
    assert config.card.name == recipe.stem
    assert Path(config.run.folder) == ROOT / "runs" / "goals" / recipe.stem
    assert config.corpora[0].path.startswith(str(ROOT / "data"))
    assert config.corpora[0].bidirectional
    assert config.validation_corpora[0].bidirectional
    other = recipe.with_name(LAID_OVER[recipe.stem.partition("-")[0]])
    smaller = read_recipe([recipe, other], {})
    assert smaller.run.max_minutes > 0
    assert smaller.network.overrides["model_dim"] <= config.network.overrides["model_dim"]


def test_the_run_that_goes_on_reads_what_the_script_before_it_writes() -> None:
    goals = ROOT / "examples" / "goals"
    first, again = goals / "cpu-multi30k.toml", goals / "cpu-multi30k-again.toml"
    before, after = (
        read_recipe([goals / "multi30k-en-de.toml", *files], {}) for files in ([first], [first, again])
    )
    assert after.pairs == (("en", "de"),)
    assert after.network == before.network
    assert after.run.start_from == after.vocabulary.reuse == f"{before.run.folder}/checkpoints/best"
    script = (goals / "multi30k-en-de.sh").read_text()
    written = {Path(corpus.path).name for corpus in after.corpora if "rewritten" in corpus.path}
    assert written == {f"{name}.tsv.gz" for name in re.findall(r"^rewrite (\w+) ", script, re.MULTILINE)}


def test_data_and_run_may_lie_elsewhere(tmp_path: Path) -> None:
    config = read_recipe(RECIPES[:1], {}, data=tmp_path / "d", folder=tmp_path / "r")
    assert config.corpora[0].path == str(tmp_path / "d" / "multi30k" / "train.en.gz")
    assert config.corpora[0].target_path == str(tmp_path / "d" / "multi30k" / "train.de.gz")
    assert config.run.folder == str(tmp_path / "r")


def test_a_corpus_that_is_not_in_the_data_folder_stays(tmp_path: Path) -> None:
    corpora = [{"path": "/far/x.tsv", "source_language": "en", "target_language": "de"}]
    changes = {"corpora": corpora, "validation_corpora": []}
    assert read_recipe(RECIPES[:1], changes, data=tmp_path).corpora[0].path == "/far/x.tsv"


def test_values_are_set_by_name() -> None:
    assert assigned(["run.max_steps=5", "run.max_steps=7", "run.device=cpu", "run.compile=true"]) == {
        "run": {"max_steps": 7, "device": "cpu", "compile": True}
    }


@pytest.mark.parametrize("wrong", ["run.max_steps", "run max_steps=1 2"])
def test_what_is_no_assignment_is_refused(wrong: str) -> None:
    with pytest.raises(click.UsageError, match=r"must be section\.name=value"):
        assigned([wrong])
