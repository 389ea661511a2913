"""Experiments as files: which runs they stand for."""

from pathlib import Path

import click
import pytest

from benchmarks.experiments.plan import UNCHANGED, Experiment, read_experiment, sharing_pieces
from benchmarks.recipes import ROOT
from model.request import DecodeOptions

FILES = sorted((ROOT / "examples" / "experiments").glob("*.toml"))


def config(experiment: Experiment, variant: str) -> dict[str, object]:
    return experiment.config(variant, 3, data=None, runs=Path("/runs")).to_dict()


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.stem)
def test_every_variant_of_every_experiment_works_and_changes_something(file: Path) -> None:
    experiment = read_experiment(file, {}, None)
    assert len(experiment.variants) > 3
    first = config(experiment, UNCHANGED)
    folders = set()
    for name in experiment.variants:
        values = config(experiment, name)
        run = values["run"]
        assert isinstance(run, dict)
        folders.add(run["folder"])
        assert (run["max_steps"], run["seed"]) == (experiment.steps, 3)
        if name != UNCHANGED:
            assert {**values, "run": None} != {**first, "run": None}
    assert len(folders) == len(experiment.variants)
    for search in experiment.searches.values():
        DecodeOptions.from_dict(dict(search))


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.stem)
def test_every_corpus_lies_in_the_data_folder(file: Path, tmp_path: Path) -> None:
    experiment = read_experiment(file, {}, None)
    for name in experiment.variants:
        found = experiment.config(name, 1, data=tmp_path, runs=Path("/runs"))
        for corpus in (*found.corpora, *found.validation_corpora):
            assert Path(corpus.path).is_relative_to(tmp_path)


def test_changes_for_all_come_before_those_of_a_variant(tmp_path: Path) -> None:
    base = ROOT / "examples" / "goals" / "multi30k-en-de.toml"
    (tmp_path / "x.toml").write_text(
        f'base = "{base}"\nsteps = 10\nevery.network.model_dim = 128\nevery.validation.every = 5\n'
        "[variants.wide]\nnetwork.model_dim = 512\n"
    )
    experiment = read_experiment(tmp_path / "x.toml", {"network": {"ffn_dim": 64}}, 20)
    usual, wide = (
        experiment.config(name, 1, data=None, runs=tmp_path / "runs") for name in (UNCHANGED, "wide")
    )
    assert (usual.network.overrides["model_dim"], wide.network.overrides["model_dim"]) == (128, 512)
    assert usual.network.overrides["ffn_dim"] == wide.network.overrides["ffn_dim"] == 64
    assert (usual.run.max_steps, usual.validation.every, usual.validation.patience) == (20, 5, 0)
    assert wide.run.folder == str(tmp_path / "runs" / "x" / "wide-1")


def test_variants_that_learn_the_same_pieces_take_them_from_the_first(tmp_path: Path) -> None:
    experiment = read_experiment(ROOT / "examples" / "experiments" / "multi30k.toml", {}, None)
    names = (UNCHANGED, "dropout 0.1", "3,000 pieces", "French and Czech too")
    configs = {(name, 1): experiment.config(name, 1, data=None, runs=tmp_path) for name in names}
    shared = sharing_pieces(configs)
    taken = [config.vocabulary.reuse for config in shared.values()]
    assert taken == [None, str(tmp_path / "multi30k" / "as-it-is-1" / "tokenizer"), None, None]
    assert shared["dropout 0.1", 1].network == configs["dropout 0.1", 1].network


def test_a_run_is_the_same_whichever_seeds_a_call_has(tmp_path: Path) -> None:
    experiment = read_experiment(ROOT / "examples" / "experiments" / "multi30k.toml", {}, None)
    calls = [
        sharing_pieces(
            {
                (name, seed): experiment.config(name, seed, data=None, runs=tmp_path)
                for name in (UNCHANGED, "dropout 0.1")
                for seed in seeds
            }
        )
        for seeds in ([1, 2], [2], [2, 1])
    ]
    for call in calls:
        assert all(config == calls[0][run] for run, config in call.items())
    assert calls[1]["dropout 0.1", 2].vocabulary.reuse is not None


def test_variants_whose_runs_would_share_a_folder_are_refused(tmp_path: Path) -> None:
    text = 'base = "b.toml"\nsteps = 1\n[variants."rate +50 %"]\n[variants."rate -50 %"]\n'
    (tmp_path / "x.toml").write_text(text)
    with pytest.raises(click.UsageError, match=r"rate \+50 % and rate -50 % would share a folder"):
        read_experiment(tmp_path / "x.toml", {}, None)


@pytest.mark.parametrize("text", ["steps = 1", 'base = "b.toml"', 'base = "b"\nsteps = 1\nvariant = 2', "[["])
def test_what_is_no_experiment_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.toml").write_text(text)
    with pytest.raises(click.UsageError, match=r"x\.toml"):
        read_experiment(tmp_path / "x.toml", {}, None)
