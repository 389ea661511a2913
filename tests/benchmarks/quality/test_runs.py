"""Training files with changes, and runs in calls of limited time."""

import json
import re
from pathlib import Path

import click
import pytest

from benchmarks.quality import runs
from benchmarks.quality.runs import ROOT, Deadline, read_changes, read_recipe, train
from model.errors import ConfigError
from tests.model.training.tiny_runs import tiny_run

RECIPES = sorted((ROOT / "examples" / "goals").glob("*-en-*.toml"))
LAID_OVER = {"multi30k": "cpu-multi30k.toml", "tatoeba": "cpu-tatoeba.toml"}


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_every_recipe_works_as_it_is_and_on_a_cpu(recipe: Path) -> None:
    assert len(RECIPES) == 6
    config = read_recipe(recipe, {})
    assert config.card.name == recipe.stem
    assert Path(config.run.folder) == ROOT / "runs" / "goals" / recipe.stem
    assert config.corpora[0].path.startswith(str(ROOT / "data"))
    assert config.corpora[0].bidirectional
    assert config.validation_corpora[0].bidirectional
    other = recipe.with_name(LAID_OVER[recipe.stem.partition("-")[0]])
    smaller = read_recipe(recipe, read_changes([other], []))
    assert smaller.run.max_minutes > 0
    assert smaller.network.overrides["model_dim"] <= config.network.overrides["model_dim"]


def test_the_run_that_goes_on_reads_what_the_script_before_it_writes() -> None:
    goals = ROOT / "examples" / "goals"
    first, again = goals / "cpu-multi30k.toml", goals / "cpu-multi30k-again.toml"
    before, after = (
        read_recipe(goals / "multi30k-en-de.toml", read_changes(files, []))
        for files in ([first], [first, again])
    )
    assert after.pairs == (("en", "de"),)
    assert after.network == before.network
    assert after.run.start_from == after.vocabulary.reuse == f"{before.run.folder}/checkpoints/best"
    script = (goals / "multi30k-en-de.sh").read_text()
    written = {Path(corpus.path).name for corpus in after.corpora if "rewritten" in corpus.path}
    assert written == {f"{name}.tsv.gz" for name in re.findall(r"^rewrite (\w+) ", script, re.MULTILINE)}


def test_data_and_run_may_lie_elsewhere(tmp_path: Path) -> None:
    config = read_recipe(RECIPES[0], {}, data=tmp_path / "d", folder=tmp_path / "r")
    assert config.corpora[0].path == str(tmp_path / "d" / "multi30k" / "train.en.gz")
    assert config.corpora[0].target_path == str(tmp_path / "d" / "multi30k" / "train.de.gz")
    assert config.run.folder == str(tmp_path / "r")


def test_a_corpus_that_is_not_in_the_data_folder_stays(tmp_path: Path) -> None:
    corpora = [{"path": "/far/x.tsv", "source_language": "en", "target_language": "de"}]
    changes = {"corpora": corpora, "validation_corpora": []}
    assert read_recipe(RECIPES[0], changes, data=tmp_path).corpora[0].path == "/far/x.tsv"


def test_later_changes_win_value_by_value(tmp_path: Path) -> None:
    (tmp_path / "one.toml").write_text("[run]\nmax_steps = 5\nseed = 2\n[network]\nmodel_dim = 64\n")
    changes = read_changes([tmp_path / "one.toml"], ["run.max_steps=7", "run.device=cpu", "run.compile=true"])
    assert changes == {
        "run": {"max_steps": 7, "seed": 2, "device": "cpu", "compile": True},
        "network": {"model_dim": 64},
    }


def test_paths_of_a_file_that_is_laid_over_are_relative_to_it(tmp_path: Path) -> None:
    (tmp_path / "one.toml").write_text('[run]\nfolder = "runs/x"\n')
    assert read_changes([tmp_path / "one.toml"], []) == {"run": {"folder": str(tmp_path / "runs" / "x")}}


@pytest.mark.parametrize("wrong", ["run.max_steps", "run max_steps=1 2"])
def test_what_is_no_assignment_is_refused(wrong: str) -> None:
    with pytest.raises(click.UsageError, match=r"must be section\.name=value"):
        read_changes([], [wrong])


def test_a_file_that_is_not_toml_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_text("[[")
    with pytest.raises(click.UsageError, match=r"x\.toml"):
        read_changes([tmp_path / "x.toml"], [])


def test_a_run_in_pieces_is_the_run_in_one_piece(tmp_path: Path) -> None:
    whole = tiny_run(tmp_path, run={"folder": str(tmp_path / "whole")})
    pieces = tiny_run(tmp_path, run={"folder": str(tmp_path / "pieces")})
    past, far = Deadline(0.0), Deadline.after(0)
    assert past.is_past
    assert not far.is_past
    assert train(pieces, past) is None
    assert train(pieces, past) is None
    ending = train(pieces, far)
    expected = train(whole, far)
    assert ending is not None
    assert expected is not None
    assert (ending.reason, ending.step, ending.tokens) == (expected.reason, expected.step, expected.tokens)
    assert (ending.reason, ending.step) == ("max_steps", 8)
    weights = [
        (Path(each.run.folder) / "checkpoints" / "last" / "model.safetensors").read_bytes()
        for each in (whole, pieces)
    ]
    assert weights[0] == weights[1]


def test_what_has_ended_is_not_loaded_again_unless_it_may_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tiny_run(tmp_path, run={"max_steps": 4})
    ending = train(config, Deadline.after(0))
    with monkeypatch.context() as patched:
        patched.setattr(runs, "open_run", None)
        assert train(config, Deadline.after(0)) == ending
    longer = train(tiny_run(tmp_path, run={"max_steps": 6}), Deadline.after(0))
    assert longer is not None
    assert longer.step == 6
    with pytest.raises(ConfigError, match=r"`run\.seed` must be 5, as when the run began"):
        train(tiny_run(tmp_path, run={"max_steps": 6, "seed": 6}), Deadline.after(0))
    written = json.loads((tmp_path / "run" / "ended.json").read_text())
    assert written["ending"]["step"] == 6


def test_only_the_end_of_a_run_has_a_report(tmp_path: Path) -> None:
    config = tiny_run(tmp_path, run={"max_steps": 2, "plots": True})
    page = tmp_path / "run" / "report" / "index.html"
    assert train(config, Deadline(0.0)) is None
    assert not page.exists()
    assert train(config, Deadline.after(0)) is not None
    assert page.exists()
