"""Outcomes of several seeds in one table."""

import pytest

from benchmarks.experiments.comparison import comparison
from benchmarks.experiments.judging import Judgement, Outcome
from benchmarks.experiments.plan import UNCHANGED, Experiment
from benchmarks.limited_run import Ending
from benchmarks.recipes import ROOT

EXPERIMENT = Experiment(
    name="x", base=ROOT / "b.toml", steps=5, every={}, variants={UNCHANGED: {}, "wide": {}}, searches={}
)


def outcome(variant: str, seed: int, bleu: float) -> Outcome:
    scores = {"en-fr": {"bleu": bleu, "bleu_signature": "s", "chrf": 50.0, "chrf_signature": "t"}}
    judged = Judgement(search="", bleu=bleu, chrf=50.0, scores=scores)
    ending = Ending("max_steps", 5, 2.0, 100)
    return Outcome(variant=variant, seed=seed, judgements=[judged], ending=ending, cross_entropy=2.0)


def cells(*outcomes: Outcome) -> list[tuple[str, str, str]]:
    (table,) = comparison(EXPERIMENT, outcomes, 0.0).tables
    return [(row[0], row[3], row[4]) for row in table.rows]


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
