import random

import pytest

from model.training.data import lexicon
from model.training.data.lexicon import ParallelIds

PAIRS = [([1, 2], [7, 8, 9]), ([3], [7]), ([4, 4], [5, 6])]


def all_meetings(pairs: ParallelIds) -> list[tuple[int, int]]:
    return [
        meeting
        for _, part in pairs.cooccurrences()
        for meeting in zip(part.sources.tolist(), part.targets.tolist(), strict=True)
    ]


def expected_meetings(pairs: list[tuple[list[int], list[int]]]) -> list[tuple[int, int]]:
    return [(s, t) for sources, targets in pairs for t in targets for s in sources]


def test_every_source_token_meets_every_target_token_of_its_pair() -> None:
    assert all_meetings(ParallelIds.of(PAIRS)) == expected_meetings(PAIRS)


def test_it_is_told_where_each_target_position_begins() -> None:
    ((count, cooccurrences),) = ParallelIds.of(PAIRS).cooccurrences()
    assert count == len(ParallelIds.of(PAIRS)) == 3
    assert cooccurrences.starts.tolist() == [0, 2, 4, 6, 7, 9]


def test_joined_pairs_are_the_pairs_of_both() -> None:
    joined = ParallelIds.joined([ParallelIds.of(PAIRS[:1]), ParallelIds.of(PAIRS[1:])])
    assert len(joined) == 3
    assert all_meetings(joined) == expected_meetings(PAIRS)


@pytest.mark.parametrize("cells", [1, 2, 7, 50])
def test_few_at_a_time_are_the_same(cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lexicon, "_CELLS_AT_ONCE", cells)
    drawn = random.Random(1)
    pairs = [
        ([drawn.randrange(9) for _ in range(drawn.randint(1, 6))], [drawn.randrange(9) for _ in range(3)])
        for _ in range(20)
    ]
    joined = ParallelIds.of(pairs)
    assert sum(count for count, _ in joined.cooccurrences()) == 20
    assert all_meetings(joined) == expected_meetings(pairs)
