"""The first example, as a new user runs it: its corpus, its configuration, and what comes out."""

import json
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner

from model.cli import main
from model.text.tokenizer import TokenizerSettings
from model.training.train_config import load_train_config

EXAMPLES = Path(__file__).parents[3] / "examples"
CONFIG = EXAMPLES / "d2l.toml"
SENTENCES = EXAMPLES / "d2l-sentences.en-fr.tsv"
REFERENCES = {
    "go .": "va !",
    "i lost .": "j'ai perdu .",
    "he's calm .": "il est calme .",
    "i'm home .": "je suis chez moi .",
}


def pairs(name: str) -> list[tuple[str, str]]:
    """Pairs of a file as the network sees them."""
    settings = TokenizerSettings(lowercase=True, separate_punctuation=True)
    rows = [line.split("\t") for line in (EXAMPLES / name).read_text(encoding="utf-8").splitlines()]
    return [(settings.prepared(source), settings.prepared(target)) for source, target in rows]


def test_no_source_of_the_validation_text_is_trained_on() -> None:
    validation = pairs("phrases-valid.en-fr.tsv")
    assert len(validation) == 40
    assert {source for source, _ in validation}.isdisjoint(s for s, _ in pairs("phrases.en-fr.tsv"))


@pytest.mark.parametrize("side", [0, 1])
def test_every_word_that_is_tested_is_frequent_enough_to_be_known(side: int) -> None:
    known = Counter(word for pair in pairs("phrases.en-fr.tsv") for word in pair[side].split())
    tested = {
        w for f in (SENTENCES.name, "phrases-valid.en-fr.tsv") for p in pairs(f) for w in p[side].split()
    }
    minimum = load_train_config([CONFIG], {}).vocabulary.minimum_frequency
    assert minimum == 2
    assert {word for word in tested if known[word] < minimum} == set()


@pytest.mark.slow
@pytest.mark.usefixtures("undrawn")
def test_the_four_sentences_come_out_as_their_references(tmp_path: Path) -> None:
    """A quarter of the example's epochs is enough without dropout, and since the learning rate falls."""
    shorter = ["--run.max-epochs", "20", "--schedule.form", "cosine", "--schedule.total-steps", "200"]
    shorter += ["--schedule.warmup-steps", "20", "--validation.every", "1000"]
    for rate in ("embedding", "attention", "ffn", "residual"):
        shorter += [f"--network.{rate}-dropout", "0"]
    report = dragoman("train", "--config", CONFIG, "--run.folder", tmp_path, *shorter)
    assert "Ended by max_epochs at step 200" in report
    index = json.loads((tmp_path / "provenance.json").read_text(encoding="utf-8"))["data"]
    assert (index["pairs_kept"], index["pairs_dropped"]) == (598, {"too_long": 2})
    asked = ["--checkpoint", tmp_path / "checkpoints" / "last", "--device", "cpu"]
    scored = dragoman("evaluate", *asked, "--source-file", SENTENCES, "--sentence-bleu", "2", "--json")
    lines = json.loads(scored)["lines"]
    assert {line["source"]: line["translation"] for line in lines} == REFERENCES
    assert [line["bleu"] for line in lines] == [1, 1, 1, 1]
    drawn = dragoman("attention", *asked, "--output", tmp_path / "attention", "he's calm .")
    assert drawn.startswith("he's calm . → il est calme .")
    names = {f"{kind}-{layer}.png" for kind in ("encoder", "decoder", "cross") for layer in (1, 2)}
    assert {file.name for file in (tmp_path / "attention" / "1").iterdir()} == names


def dragoman(*arguments: str | Path) -> str:
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result.stdout
