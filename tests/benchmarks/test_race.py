"""What computes something else gets no figures."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from benchmarks.engine import Engine, Ids
from benchmarks.race import Race, hold
from model.request import DecodeOptions

SOURCES = [(5, 0), (6, 0), (7, 0)]


@dataclass
class Double:
    """Answers each source with itself, moved by `shift`; notes the sizes of its batches."""

    name: str
    precision: str
    shift: int = 0

    def __post_init__(self) -> None:
        self.sizes: list[int] = []

    def decode(self, sources: Sequence[Ids], options: DecodeOptions) -> list[tuple[int, ...]]:
        self.sizes.append(len(sources))
        return [tuple(i + self.shift for i in ids) for ids in sources]


def race(batch_size: int = 2) -> Race:
    options = DecodeOptions(strategy="greedy")
    return Race(network="any", search="greedy", options=options, batch_size=batch_size, sources=SOURCES)


def test_a_peer_with_other_translations_is_not_compared() -> None:
    engines: list[Engine] = [Double("dragoman", "float32"), Double("peer", "float32", shift=1)]
    ours, peer = hold(race(), engines, rounds=1, clock="wall")
    assert (ours.is_wrong, peer.is_wrong) == (False, True)
    assert peer.cells("wall")[-2:] == ("–", "other translations: not comparable")


def test_int8_may_differ_and_is_compared_with_our_int8() -> None:
    engines: list[Engine] = [
        Double("dragoman", "float32"),
        Double("dragoman", "int8"),
        Double("peer", "int8", shift=1),
    ]
    first, second, peer = hold(race(), engines, rounds=3, clock="wall")
    assert (first.opponent, second.opponent, peer.opponent) == (None, "dragoman float32", "dragoman int8")
    assert not peer.is_wrong
    assert peer.same == 0


@pytest.mark.parametrize(("batch_size", "sizes"), [(1, [1, 1, 1]), (2, [2, 1]), (8, [3])])
def test_engines_get_so_many_sentences_at_a_time(batch_size: int, sizes: list[int]) -> None:
    engine = Double("dragoman", "float32")
    hold(race(batch_size), [engine], rounds=2, clock="wall")
    assert engine.sizes == sizes * 3  # once to compare, twice to time
