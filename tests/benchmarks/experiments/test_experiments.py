"""An experiment from its file to its table, in several calls, on made-up text."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from benchmarks.experiments.__main__ import main
from benchmarks.options import UNFINISHED
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
    rows = [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]
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
    pieces = [
        (runs / name / "tokenizer" / "tokenizer.model").read_bytes()
        for name in ("as-it-is-1", "no-smoothing-1")
    ]
    assert pieces[0] == pieces[1]
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
    assert [row[0] for row in table["rows"]] == ["as it is"] * 2
    assert all(" to " in row[table["columns"].index("cross entropy")] for row in table["rows"])


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
    found = {row[0]: row[3] for row in table["rows"]}
    assert found["wild"] == "seed 1 diverged"
    assert found["other"] != "seed 1 diverged"
