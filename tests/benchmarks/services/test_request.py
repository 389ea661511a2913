"""The cost of a request from its command line to its report."""

import json
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks.harness.texts import SizedText
from benchmarks.harness.timing import Duration
from benchmarks.services import echo_service
from benchmarks.services.request import _cost, _ratio
from benchmarks.services.traffic import Workload
from tests.benchmarks.commands import run


def test_a_request_costs_something_beside_an_echo(tmp_path: Path, tiny_checkpoint: Path) -> None:
    options = ["--checkpoint", str(tiny_checkpoint), "--requests", "60", "--concurrency", "3"]
    report = run("services.request", tmp_path, *options)
    assert [(result["concurrency"], result["service"]) for result in report["results"]] == [
        (3, "dragoman, nothing decoded"),
        (3, "dragoman, nothing decoded"),
        (3, "fastapi echo"),
        (3, "fastapi echo"),
    ]


def test_a_request_costs_its_share_of_what_the_server_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    computed = iter((10.0, 10.6))
    server = SimpleNamespace(port=1, spec=echo_service(), processor_seconds=lambda: next(computed))
    samples = [[0, 0.125, 200], [0, 0.25, 200], [0, 0.375, 200]]
    outcome = SimpleNamespace(
        returncode=0, stdout=json.dumps({"samples": samples, "answers": {}, "processor": 1.0, "seconds": 1.5})
    )
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: outcome)
    load = Workload(
        name="steady",
        texts=[SizedText(text="one", tokens=1, max_length=2)],
        concurrency=1,
        seconds=None,
        warm_up_seconds=0.0,
        source="en",
        target="fr",
        decoding={},
    )
    cost = _cost(server, load, 0)  # type: ignore[arg-type]
    assert cost.wall == pytest.approx(0.25)
    assert cost.processor == pytest.approx(0.2)


def test_a_round_that_the_clock_cannot_tell_from_nothing_has_no_ratio() -> None:
    assert _ratio([Duration(1, 0.03)], [Duration(1, 0.0)]) == "–"
    assert _ratio([Duration(1, 0.03)], [Duration(1, 0.01)]).startswith("3.00")
