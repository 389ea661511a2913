"""Choosing a search: which are tried, and which one wins."""

from collections.abc import Sequence

from model.decode_request import DecodeOptions
from model.evaluation import HeldOut
from model.evaluation.tuning import best_trial, searches, try_searches

REFERENCES = ("one two three four five", "six seven eight nine ten")
TEXTS = (HeldOut("en", "fr", ("a", "b"), REFERENCES), HeldOut("fr", "en", ("c", "d"), REFERENCES))


def test_the_present_search_is_tried_first_and_each_one_once() -> None:
    present = DecodeOptions(beam_size=5, length_penalty=1.0)
    tried = searches(present, [4, 5], [0.5, 1.0, 1.0])
    assert [(each.beam_size, each.length_penalty) for each in tried] == [
        (5, 1.0),
        (4, 0.5),
        (4, 1.0),
        (5, 0.5),
    ]
    assert searches(present, [], []) == [present]


def test_a_present_search_beside_the_grid_is_tried_too() -> None:
    present = DecodeOptions(beam_size=5, length_penalty=0.6)
    assert [each.length_penalty for each in searches(present, [], [0.5, 1.0])] == [0.6, 0.5, 1.0]


def test_a_greedy_checkpoint_is_offered_beams() -> None:
    (only,) = searches(DecodeOptions(strategy="greedy", max_length=7), [3], [])
    assert (only.strategy, only.beam_size, only.max_length) == ("beam", 3, 7)


def test_a_beam_keeps_no_more_hypotheses_than_it_has() -> None:
    tried = searches(DecodeOptions(beam_size=4, num_hypotheses=3), [2, 6], [])
    assert [(each.beam_size, each.num_hypotheses) for each in tried] == [(4, 3), (2, 2), (6, 3)]
    (only,) = searches(DecodeOptions(strategy="sample", num_hypotheses=10), [], [])
    assert (only.strategy, only.num_hypotheses) == ("beam", only.beam_size)


def test_the_highest_mean_over_the_directions_wins() -> None:
    class Scripted:
        def translate(
            self, texts: Sequence[str], *, source: str, options: DecodeOptions, **_: object
        ) -> Sequence[str]:
            is_right = options.length_penalty == 2.0 or (options.length_penalty == 1.0 and source == "en")
            return REFERENCES if is_right else ["", "six"]

    candidates = searches(DecodeOptions(), [], [0.0, 1.0, 2.0])
    trials = list(try_searches(Scripted(), TEXTS, candidates))  # type: ignore[arg-type]
    best = best_trial(trials, "bleu")
    assert best.options.length_penalty == 2.0
    assert best.score("bleu") > 99.9
    half = next(trial for trial in trials if trial.options.length_penalty == 1.0)
    assert 40 < half.score("chrf") < 60
    assert best.to_dict()["scores"]["en-fr"]["bleu_signature"].startswith("nrefs:1")  # type: ignore[index]
