"""An experiment from its file to its table, in several calls, on made-up text."""

import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from benchmarks.harness.report import Report
from benchmarks.quality.experiments import (
    UNCHANGED,
    Experiment,
    Judgement,
    Outcome,
    fill,
    main,
    read_experiment,
)
from benchmarks.quality.runs import ROOT, UNFINISHED, Ending
from model.request import DecodeOptions
from tests.model.training.parallel_text import write_corpus

RECIPE = """
[[corpora]]
path = "train.tsv"
source_language = "en"
target_language = "fr"
[[validation_corpora]]
path = "valid.tsv"
source_language = "en"
target_language = "fr"
[vocabulary]
kind = "char"
size = 64
byte_fallback = false
[network]
model_dim = 16
num_heads = 2
num_encoder_layers = 1
num_decoder_layers = 1
ffn_dim = 16
[batches]
max_tokens = 800
[run]
max_steps = 500
device = "cpu"
log_every = 1
plots = false
[decoding]
max_length = 5
"""
EXPERIMENT = """
base = "recipe.toml"
steps = 3
every.schedule.warmup_steps = 2
[variants."No Smoothing!".objective]
label_smoothing = 0.0
[searches.greedy]
strategy = "greedy"
[searches."beam 2"]
beam_size = 2
"""


@pytest.fixture
def experiment(tmp_path: Path) -> Path:
    write_corpus(tmp_path / "train.tsv", 40)
    write_corpus(tmp_path / "valid.tsv", 6, seed=1)
    (tmp_path / "recipe.toml").write_text(RECIPE)
    (tmp_path / "what-pays.toml").write_text(EXPERIMENT)
    return tmp_path


def call(folder: Path, *more: str) -> Result:
    where = ["--runs", str(folder / "runs"), "--output", str(folder), "--device", "cpu"]
    return CliRunner().invoke(main, [str(folder / "what-pays.toml"), *where, *more])


def report(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "experiment-what-pays.json").read_text())
    return found


def test_every_variant_is_trained_and_translated_with_every_search(experiment: Path) -> None:
    result = call(experiment)
    assert result.exit_code == 0, result.output + str(result.exception)
    (table,) = report(experiment)["tables"]
    rows = table["rows"]
    assert [(row["change"], row["search"], row["steps"]) for row in rows] == [
        ("as it is", "greedy", "3"),
        ("as it is", "beam 2", "3"),
        ("No Smoothing!", "greedy", "3"),
        ("No Smoothing!", "beam 2", "3"),
    ]
    assert [row["against as it is"][:1] for row in rows] == ["", "", "+", "+"]
    first, second = report(experiment)["results"]
    assert (second["changes"], second["variant"]) == (
        {"objective": {"label_smoothing": 0.0}},
        "No Smoothing!",
    )
    assert first["cross_entropy"] != second["cross_entropy"]
    assert first["judgements"][0]["scores"]["en-fr"]["bleu_signature"].startswith("nrefs:1|")


def test_what_is_done_is_not_done_again(experiment: Path) -> None:
    assert call(experiment, "--max-minutes", "1e-9").exit_code == UNFINISHED
    assert not (experiment / "experiment-what-pays.json").exists()
    first = call(experiment)
    runs = experiment / "runs" / "what-pays"
    judged = runs / "no-smoothing-1" / "judged.json"
    written = judged.stat().st_mtime_ns
    again = call(experiment)
    assert again.stdout[again.stdout.index("###") :] == first.stdout[first.stdout.index("###") :]
    assert judged.stat().st_mtime_ns == written
    assert call(experiment, "--sentences", "2").exit_code == 0
    assert judged.stat().st_mtime_ns > written


def test_several_seeds_show_how_much_is_chance(experiment: Path) -> None:
    assert call(experiment, "--variant", "as it is", "--seed", "1", "--seed", "2").exit_code == 0
    (table,) = report(experiment)["tables"]
    assert [row["change"] for row in table["rows"]] == ["as it is"] * 2
    assert all(" to " in row["cross entropy"] for row in table["rows"])


def test_an_unknown_variant_is_refused_by_name(experiment: Path) -> None:
    result = call(experiment, "--variant", "none")
    assert result.exit_code == 2
    assert "must be one of as it is, No Smoothing!" in result.stderr


def test_a_variant_that_diverges_is_told_and_stops_no_other(experiment: Path) -> None:
    (experiment / "what-pays.toml").write_text(
        EXPERIMENT.replace(
            "[searches", "[variants.wild.optimisation]\nlearning_rate = 1e30\nclip_norm = 0.0\n[searches", 1
        )
        + "[variants.other.batches]\nmax_tokens = 900\n"
    )
    assert call(experiment).exit_code == 0
    (table,) = report(experiment)["tables"]
    found = {row["change"]: row["BLEU"] for row in table["rows"]}
    assert found["wild"] == "seed 1 diverged"
    assert found["other"] != "seed 1 diverged"


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


MADE_UP = Experiment(
    name="x", base=ROOT / "b.toml", steps=5, every={}, variants={UNCHANGED: {}, "wide": {}}, searches={}
)


def outcome(variant: str, seed: int, bleu: float) -> Outcome:
    scores = {"en-fr": {"bleu": bleu, "bleu_signature": "s", "chrf": 50.0, "chrf_signature": "t"}}
    judged = Judgement(search="", bleu=bleu, chrf=50.0, scores=scores)
    ending = Ending("max_steps", 5, 2.0, 100)
    return Outcome(variant=variant, seed=seed, judgements=[judged], ending=ending, cross_entropy=2.0)


def cells(*outcomes: Outcome) -> list[tuple[str, str, str]]:
    report = Report("x", {})
    fill(report, MADE_UP, outcomes)
    (table,) = report.tables
    return [(row["change"], row["BLEU"], row["against as it is"]) for row in table.rows]


def test_gains_are_those_of_the_same_seed() -> None:
    runs = [
        outcome(UNCHANGED, 1, 30),
        outcome(UNCHANGED, 2, 32),
        outcome("wide", 1, 33),
        outcome("wide", 2, 33),
    ]
    assert cells(*runs) == [
        (UNCHANGED, "31.00 (30.00 to 32.00)", ""),
        ("wide", "33.00 (33.00 to 33.00)", "+2.00 (+1.00 to +3.00)"),
    ]


@pytest.mark.parametrize("failed", [1, 2])
def test_a_seed_that_diverged_has_a_row_and_no_gain(failed: int) -> None:
    other = 3 - failed
    runs = [outcome(UNCHANGED, 1, 30), outcome(UNCHANGED, 2, 30), outcome("wide", other, 29)]
    rows = cells(*runs, Outcome(variant="wide", seed=failed, failure="why"))
    assert rows[1:] == [("wide", "29.00", "-1.00"), ("wide", f"seed {failed} diverged", "")]
