"""What computes something else gets no figures."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.engine import Engine, Ids, Translations
from benchmarks.lineup import Contestant
from benchmarks.overview import overview
from benchmarks.race import Race, hold, opponent_of, reference_of
from benchmarks.rounds import Duration
from model.request import DecodeOptions

SOURCES = [(5, 0), (6, 0), (7, 0), (8, 0)]


def never(folder: Path, precision: str, threads: int) -> Engine:
    raise AssertionError(f"{folder} is not to be loaded")


def contestant(engine: str, precision: str) -> Contestant:
    return Contestant(engine=engine, precision=precision, load=never)


class Double:
    """Answers each source with itself, the first ones moved by 1; takes so many seconds."""

    def __init__(self, engine: str, precision: str, *, moved: int = 0, seconds: float = 1.0) -> None:
        self.contestant = contestant(engine, precision)
        self._moved, self._seconds = moved, seconds

    def decode(
        self, sources: Sequence[Ids], options: DecodeOptions, batch_size: int
    ) -> tuple[Translations, Duration]:
        shifts = [1] * self._moved + [0] * (len(sources) - self._moved)
        translations = [tuple(i + shift for i in ids) for ids, shift in zip(sources, shifts, strict=True)]
        return translations, Duration(self._seconds, self._seconds)


def race(least_same: float = 1.0) -> Race:
    return Race(
        network="any",
        search="greedy",
        options=DecodeOptions(strategy="greedy"),
        threads=1,
        batch_size=2,
        sources=SOURCES,
        least_same=least_same,
    )


@pytest.mark.parametrize(("least_same", "is_wrong"), [(1.0, True), (0.75, False)])
def test_a_float32_peer_with_too_many_other_translations_is_not_compared(
    least_same: float, is_wrong: bool
) -> None:
    doubles = [Double("dragoman", "float32"), Double("peer", "float32", moved=1)]
    ours, peer = hold(race(least_same), doubles, rounds=1, clock="wall")
    assert not ours.is_wrong
    assert (peer.is_wrong, peer.same) == (is_wrong, 3)
    assert (peer.cells("wall")[-1] == "other translations: not comparable") == is_wrong


def test_int8_may_differ_and_is_compared_with_our_int8() -> None:
    doubles = [
        Double("dragoman", "float32"),
        Double("dragoman", "int8", moved=2),
        Double("peer", "int8", moved=3, seconds=2),
    ]
    first, second, peer = hold(race(), doubles, rounds=3, clock="wall", score=lambda ids: len(ids) * 10.0)
    assert (first.opponent, first.same_as_ours) == (None, None)
    assert (second.opponent, second.same_as_ours) == (doubles[0].contestant, None)
    assert (peer.opponent, peer.same, peer.same_as_ours) == (doubles[1].contestant, 1, 3)
    assert not peer.is_wrong
    assert peer.ratio is not None
    assert peer.ratio.median == 2
    assert (peer.bleu, peer.tokens) == (40.0, 8)


def test_an_engine_of_ours_is_compared_with_the_first_in_its_precision_or_the_reference() -> None:
    native, torch = contestant("dragoman-native", "int8"), contestant("dragoman-torch", "int8")
    reference = contestant("dragoman-native", "float32")
    field = [native, reference, torch]
    assert reference_of(field) is reference
    assert opponent_of(torch, field) is native
    assert opponent_of(native, field) is reference
    assert opponent_of(reference, field) is None
    assert reference_of([native, torch]) is native


def test_the_overview_compares_our_fastest_precision_with_everybody() -> None:
    doubles = [
        Double("dragoman", "float32", seconds=2),
        Double("dragoman", "int8"),
        Double("wrong", "float32", moved=4),
        Double("peer", "int8", seconds=3),
    ]
    table = overview(hold(race(), doubles, rounds=2, clock="wall"), "wall")
    assert "dragoman-int8" in table.title
    assert table.columns[4:] == ("dragoman-float32", "wrong-float32", "peer-int8")
    assert table.rows == [("any", "greedy", "1", "2", "2.00 (2.00–2.00)", "–", "3.00 (3.00–3.00)")]
