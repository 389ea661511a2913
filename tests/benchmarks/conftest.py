"""Benchmarks by their command line, at a size that takes seconds, in the process of the tests."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from benchmarks.engines import EngineProcess, EngineSpec, _decode
from model.training.distributed.world import tuned_cpu


def run(benchmark: click.Command, output: Path, *options: str, name: str) -> dict[str, Any]:
    """The JSON report of one round; `name` is the report's."""
    arguments = ["--rounds", "1", "--output", str(output), "--name", name, *options]
    outcome = CliRunner().invoke(benchmark, arguments, catch_exceptions=False)
    assert outcome.exit_code == 0, outcome.output
    assert (output / f"{name}.md").read_text() in outcome.output
    report: dict[str, Any] = json.loads((output / f"{name}.json").read_text())
    assert report["machine"]["processor"]
    for table in report["tables"]:
        assert table["rows"]
        assert len({tuple(row) for row in table["rows"]}) == 1
    return report


class EngineHere(EngineProcess):
    """Answers as an engine's process does, from the process of the tests."""

    def __init__(self, spec: EngineSpec, folder: Path, threads: int, device: str = "cpu") -> None:
        self.spec, self._place = spec, (device, threads)
        self._engine = spec.load(folder, threads, device)

    def _ask(self, order: Mapping[str, object]) -> dict[str, Any]:
        written = json.dumps(_decode(self._engine, json.loads(json.dumps(order)), *self._place))
        answer: dict[str, Any] = json.loads(written)
        return answer

    def __exit__(self, *_: object) -> None:
        pass


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Loads engines in this process, does not pin it to a core, and restores what training tunes."""
    monkeypatch.setattr("benchmarks.decode.EngineProcess", EngineHere)
    for module in ("firefox", "training"):
        monkeypatch.setattr(f"benchmarks.{module}.pin", lambda _: None)
    with tuned_cpu(0):
        yield
