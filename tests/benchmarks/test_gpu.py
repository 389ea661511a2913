"""The GPU session from its command line to its reports, on a CPU."""

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from benchmarks.gpu.__main__ import SESSION, Part, main
from benchmarks.gpu.parts import DRY, PARTS, Work
from model.decoding.pytorch.static_runner import StaticRunner
from model.decoding.runner import Progress

OWN = [name for name, part in SESSION.items() if not part.full]


# Other tests run `smoke` and `loop`.
@pytest.mark.parametrize("name", [name for name in OWN if name not in ("smoke", "loop")])
def test_a_part_measures_what_is_predicted(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if name == "kernels":
        pytest.importorskip("triton")
        # Triton's interpreter is slow; test_kernel_check.py compares the kernels with PyTorch.
        monkeypatch.setattr("benchmarks.gpu.parts.require_agreement", lambda *_: None)
    figures = PARTS[name](DRY)
    expected = {"continuous.tokens", "continuous.alone_ms"} if name == "continuous" else set()
    assert expected <= figures.keys()


def test_a_full_batch_leaves_its_slots_to_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def advance(runner: StaticRunner, *arguments: object) -> Progress:
        progress = original(runner, *arguments)  # type: ignore[arg-type]
        running.append(max(len(batch.sentences) for batch in runner._running()))
        return progress

    running, original = [], StaticRunner.advance
    monkeypatch.setattr(StaticRunner, "advance", advance)
    PARTS["loop"](DRY)
    assert running == [count for count in DRY.slots for _ in range(2 * 3)]


@pytest.mark.parametrize("name", [name for name in SESSION if name not in OWN])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_benchmark_knows_its_options(name: str, device: str) -> None:
    part, command = SESSION[name], import_module(f"benchmarks.{name}").main
    options = part.dry if device == "cpu" else part.full
    chosen = command.make_context(name, [f"--device={device}", *options.split()]).params
    assert chosen["device"] == device


def test_a_session_reports_each_part_beside_its_prediction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = {"smoke": SESSION["smoke"], "kernels": Part(1, "no_such_package")}
    monkeypatch.setattr("benchmarks.gpu.__main__.SESSION", parts)
    assert main(["--dry", "--output", str(tmp_path)]) == 0, (tmp_path / "smoke.log").read_text()
    report = json.loads((tmp_path / "gpu.json").read_text("utf-8"))
    said = {row["part"]: row[""] for row in report["parts"]}
    assert said == {"smoke": "done", "kernels": "left out: needs no_such_package"}
    assert report["figures"]["smoke.eager"] == 0
    assert "800,000" in capsys.readouterr().out


def test_a_part_without_time_is_named_and_fails_the_session(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--dry", "--output", str(tmp_path), "--seconds", "0.4"]
    assert main([*options, "--part", "loop", "--part", "smoke"]) == 1
    said = capsys.readouterr().out
    assert "ended after 0 s, see loop.log" in said
    assert "not started, no time left" in said


def test_a_wrong_log_probability_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    network = Work.network

    def other(work: Work, dtype: object) -> object:
        made = network(work, dtype)  # type: ignore[arg-type]
        made.output.weight.data[5] += 0.3 * len(calls)
        calls.append(1)
        return made

    calls: list[int] = []
    monkeypatch.setattr(Work, "network", other)
    with pytest.raises(RuntimeError, match="log-probabilities differ"):
        PARTS["correctness"](DRY)


_WITHOUT_OTHERS = """
import sys
for name in ("numpy", "safetensors", "sentencepiece", "click", "fastapi", "pydantic_core"):
    sys.modules[name] = None
from benchmarks.gpu.__main__ import main
sys.exit(main(sys.argv[1:]))
"""


def test_pytorch_alone_is_enough(tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    options = ["--dry", "--alone", "smoke", "--figures", str(figures)]
    command = [sys.executable, "-c", _WITHOUT_OTHERS, *options]
    subprocess.run(command, cwd=Path(__file__).parents[2], check=True, timeout=580)
    assert json.loads(figures.read_text("utf-8"))["smoke.eager"] == 0
