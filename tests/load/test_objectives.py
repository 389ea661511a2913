"""A load test passes only when something was tested and every objective was met."""

import dataclasses

from tests.load.objectives import REFUSED, Measured, Objectives

OBJECTIVES = Objectives(p95_ms={"sentence": 100.0, "document": 1000.0}, failures=0.0, refusals=0.1)
GOOD = {
    "sentence": Measured(requests=80, failures=0, p95_ms=90.0),
    "document": Measured(requests=10, failures=0, p95_ms=1000.0),
}


def test_a_run_within_every_limit_misses_nothing() -> None:
    refused = Measured(requests=10, failures=0, p95_ms=1.0)
    assert OBJECTIVES.missed({**GOOD, REFUSED: refused}) == []


def test_a_slow_kind_is_named_with_its_limit() -> None:
    slow = dataclasses.replace(GOOD["sentence"], p95_ms=101.0)
    assert OBJECTIVES.missed({**GOOD, "sentence": slow}) == [
        "sentence: p95 is 101 ms, must be at most 100 ms"
    ]


def test_one_failure_is_too_many() -> None:
    failed = dataclasses.replace(GOOD["document"], failures=1)
    assert OBJECTIVES.missed({**GOOD, "document": failed}) == ["1 of 90 requests failed, at most 0.0% may"]


def test_more_refusals_than_permitted_are_a_miss() -> None:
    refused = Measured(requests=11, failures=0, p95_ms=1.0)
    assert OBJECTIVES.missed({**GOOD, REFUSED: refused}) == ["11 of 101 requests refused, at most 10.0% may"]


def test_a_kind_that_never_ran_is_a_miss() -> None:
    assert OBJECTIVES.missed({"sentence": GOOD["sentence"]}) == ["document: no request was made"]
    assert len(OBJECTIVES.missed({})) == 2
