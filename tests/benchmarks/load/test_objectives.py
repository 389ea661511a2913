"""A load test passes only when something was tested and every objective was met."""

from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from benchmarks.load.objectives import REFUSED, Entry, Level, Objectives, are_met

OBJECTIVES = Objectives(
    latency_ms={"sentence": {0.5: 50.0, 0.95: 100.0}, "document": {0.95: 1000.0}}, refusals=0.1
)


@dataclass
class Double:
    """What locust saw, up to the longest latency in ms."""

    num_requests: int
    worst: float
    num_failures: int = 0

    def get_response_time_percentile(self, percent: float) -> float:
        return percent * self.worst


GOOD = {"sentence": Double(80, 100.0), "document": Double(10, 1000.0)}


def missed(seen: Mapping[str, Entry]) -> list[str]:
    return [level.objective for level in OBJECTIVES.levels(seen) if not level.is_met]


@pytest.mark.parametrize(
    ("changed", "objectives"),
    [
        ({REFUSED: Double(10, 1.0)}, []),
        ({REFUSED: Double(11, 1.0)}, ["refused, of all requests"]),
        ({"sentence": Double(80, 101.0)}, ["sentence: p50"]),
        ({"sentence": Double(80, 106.0)}, ["sentence: p50", "sentence: p95"]),
        ({"document": Double(10, 1000.0, num_failures=1)}, ["failed, of all requests"]),
    ],
)
def test_each_missed_objective_is_named(changed: dict[str, Double], objectives: list[str]) -> None:
    assert missed({**GOOD, **changed}) == objectives


def test_a_kind_that_never_ran_is_a_miss() -> None:
    assert missed({"sentence": GOOD["sentence"]}) == ["document: p95"]
    assert len(missed({})) == 5
    assert not are_met([])


def test_a_kind_may_be_at_most_twice_as_slow_as_another() -> None:
    objectives = Objectives(latency_ms={}, compared=("alone", "beside"))
    for slowness, is_met in ((2.0, True), (2.1, False), (0.0, True)):
        seen = {"alone": Double(9, 10.0), "beside": Double(9, 10.0 * slowness)}
        assert list(objectives.levels(seen))[-1].is_met == is_met
    assert not list(objectives.levels({"alone": Double(9, 10.0)}))[-1].is_met


def test_the_table_says_what_was_measured_and_what_it_must_be() -> None:
    levels = [
        Level(objective="p99", measured=1234.5, limit=900.0, unit="ms"),
        Level(objective="answered", measured=7, limit=1, is_floor=True),
        Level(objective="never run", measured=float("nan"), limit=1),
    ]
    assert [list(level.row().values()) for level in levels] == [
        ["p99", "1,234 ms", "at most 900 ms", "MISSED"],
        ["answered", "7", "at least 1", "met"],
        ["never run", "nothing", "at most 1", "MISSED"],
    ]
    assert not are_met(levels)
    assert are_met(levels[1:2])
    assert [level.is_met for level in levels] == [False, True, False]
