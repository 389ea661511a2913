import itertools
from collections import defaultdict

import numpy as np
import pytest

from model.training.data import lexicon as module
from model.training.data.lexicon import ITERATIONS, Lexicon, ParallelIds

# "the house", "the book", "a book" and "das Haus", "das Buch", "ein Buch": the example of the textbooks.
THE, HOUSE, BOOK, A = range(4)
DAS, HAUS, BUCH, EIN = range(4, 8)
PAIRS = [([THE, HOUSE], [DAS, HAUS]), ([THE, BOOK], [DAS, BUCH]), ([A, BOOK], [EIN, BUCH])]
VOCAB = 8


def slow_model_1(pairs: list[tuple[list[int], list[int]]]) -> dict[tuple[int, int], float]:
    """By the paper's equations, pair by pair."""
    met = {key for sources, targets in pairs for key in itertools.product(sources, targets)}
    probability = dict.fromkeys(met, 1.0)
    for _ in range(ITERATIONS):
        expected: dict[tuple[int, int], float] = defaultdict(float)
        for sources, targets in pairs:
            for t in targets:
                total = sum(probability[s, t] for s in sources)
                for s in sources:
                    expected[s, t] += probability[s, t] / total
        totals: dict[int, float] = defaultdict(float)
        for (s, _), value in expected.items():
            totals[s] += value
        probability = {(s, t): value / totals[s] for (s, t), value in expected.items()}
    return probability


def learned(pairs: list[tuple[list[int], list[int]]]) -> Lexicon:
    return Lexicon.learn(ParallelIds.of(pairs), VOCAB, lambda _: None)


def as_dict(lexicon: Lexicon) -> dict[tuple[int, int], float]:
    keys = zip(lexicon.sources.tolist(), lexicon.targets.tolist(), strict=True)
    return dict(zip(keys, lexicon.probabilities.tolist(), strict=True))


@pytest.mark.parametrize("pairs", [PAIRS, [*PAIRS, ([A], [EIN]), ([THE, BOOK, THE], [DAS, DAS])]])
def test_it_is_model_1(pairs: list[tuple[list[int], list[int]]]) -> None:
    slow = slow_model_1(pairs)
    assert as_dict(learned(pairs)) == pytest.approx(slow)


def test_a_word_finds_its_translation() -> None:
    sources, targets = learned(PAIRS).best(1, without=np.array([], dtype=np.int32))
    assert dict(zip(sources.tolist(), targets.tolist(), strict=True)) == {
        THE: DAS,
        HOUSE: HAUS,
        BOOK: BUCH,
        A: EIN,
    }


def test_what_is_not_wanted_leaves_room_for_the_next_best() -> None:
    sources, targets = learned(PAIRS).best(1, without=np.array([DAS, BUCH], dtype=np.int32))
    assert dict(zip(sources.tolist(), targets.tolist(), strict=True))[THE] == HAUS


def test_probabilities_of_a_source_token_add_up_to_one() -> None:
    lexicon = learned(PAIRS)
    assert np.bincount(lexicon.sources, lexicon.probabilities) == pytest.approx(np.ones(4))


def test_progress_tells_of_every_pass() -> None:
    told: list[int] = []
    Lexicon.learn(ParallelIds.of(PAIRS), VOCAB, told.append)
    assert sum(told) == 3 * (ITERATIONS + 1)


def test_memory_is_bounded_and_what_meets_often_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_ENTRIES", 2)
    lexicon = learned([*PAIRS, ([THE, BOOK], [DAS, BUCH])])
    assert len(lexicon.keys) == 2
    assert set(as_dict(lexicon)) <= set(itertools.product((THE, BOOK), (DAS, BUCH)))
    assert not np.isnan(lexicon.probabilities).any()
