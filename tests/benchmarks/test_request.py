"""The cost of a request from its command line to its report."""

from pathlib import Path

from benchmarks.request import _ratio
from benchmarks.rounds import Duration
from tests.benchmarks.commands import run


def test_a_request_costs_something_beside_an_echo(tmp_path: Path, tiny_checkpoint: Path) -> None:
    options = ["--checkpoint", str(tiny_checkpoint), "--requests", "60", "--concurrency", "3"]
    report = run("request", tmp_path, *options)
    assert [(result["concurrency"], result["service"]) for result in report["results"]] == [
        (3, "dragoman, nothing decoded"),
        (3, "dragoman, nothing decoded"),
        (3, "fastapi echo"),
        (3, "fastapi echo"),
    ]
    assert all(result["seconds"] >= 0 for result in report["results"])


def test_a_round_that_the_clock_cannot_tell_from_nothing_has_no_ratio() -> None:
    assert _ratio([Duration(1, 0.03)], [Duration(1, 0.0)]) == "–"
    assert _ratio([Duration(1, 0.03)], [Duration(1, 0.01)]).startswith("3.00")
