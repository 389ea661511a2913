"""The GPU session from its command line to its reports, on a CPU."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from benchmarks.gpu.__main__ import SESSION
from benchmarks.gpu.parts import PARTS, Work
from benchmarks.gpu.predictions import PREDICTIONS, table
from tests.benchmarks.commands import ROOT

OWN = [name for name, part in SESSION.items() if not part.full]


def session(output: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks.gpu", "--dry", "--output", str(output), *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=580, check=False)


@pytest.mark.slow
def test_every_part_runs_and_the_predictions_stand_beside_it(tmp_path: Path) -> None:
    outcome = session(tmp_path)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    report = json.loads((tmp_path / "gpu.json").read_text("utf-8"))
    left_out = {} if find_spec("triton") else {"kernels": "left out: needs triton"}
    assert {row["part"]: row[""] for row in report["parts"]} == dict.fromkeys(SESSION, "done") | left_out
    assert "800,000" in outcome.stdout
    measured = {each.figure for each in PREDICTIONS} & report["figures"].keys()
    assert {"continuous.tokens", "continuous.alone_ms", "smoke.eager"} <= measured


def test_a_part_without_time_is_named_and_fails_the_session(tmp_path: Path) -> None:
    outcome = session(tmp_path, "--seconds", "1", "--part", "loop", "--part", "smoke")
    assert outcome.returncode == 1
    assert "ended after 1 s, see loop.log" in outcome.stdout
    assert "not started, no time left" in outcome.stdout


def test_the_session_begins_with_what_tells_most() -> None:
    assert list(SESSION)[:4] == ["smoke", "correctness", "loop", "continuous"]
    assert set(OWN) == set(PARTS)


def test_a_wrong_log_probability_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    work = Work(device="cpu", is_dry=True)
    network = Work.network

    def other(work: Work, dtype: object) -> object:
        made = network(work, dtype)  # type: ignore[arg-type]
        made.output.weight.data[5] += 0.3 * len(calls)
        calls.append(1)
        return made

    calls: list[int] = []
    monkeypatch.setattr(Work, "network", other)
    with pytest.raises(RuntimeError, match="log-probabilities differ"):
        PARTS["correctness"](work)


def test_a_figure_stands_beside_its_prediction() -> None:
    rows = {row["what"]: row for row in table({"continuous.tokens": 123456.0})}
    assert rows["continuous batching"]["measured"] == "123,456"
    assert rows["continuous batching"]["predicted"] == "200,000"
    assert rows["greedy loop, 512 slots"]["measured"] == "–"


_WITHOUT_OTHERS = """
import sys
for name in ("numpy", "safetensors", "sentencepiece", "click", "fastapi", "pydantic"):
    sys.modules[name] = None
from benchmarks.gpu.__main__ import main
sys.exit(main(sys.argv[1:]))
"""


def test_pytorch_alone_is_enough(tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    options = ["--dry", "--alone", "smoke", "--figures", str(figures)]
    subprocess.run([sys.executable, "-c", _WITHOUT_OTHERS, *options], cwd=ROOT, check=True, timeout=580)
    assert json.loads(figures.read_text("utf-8"))["smoke.eager"] == 0
