"""One session on a GPU: every part in a process of its own, with a time limit, the most telling first.

python -m benchmarks.gpu --output runs/gpu
python -m benchmarks.gpu --dry --output runs/gpu
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from benchmarks.gpu.predictions import table
from benchmarks.harness.report import markdown_table

_ROOT = Path(__file__).parents[2]
_BASE, _TINY = "--shape=base", "--shape=tiny --rounds=1"
_ONE_OF_EACH = "--engine=dragoman-torch-float32 --engine=hugging-face-float32 --engine=ctranslate2-float32"
_SECONDS, _DRY_SECONDS = 1200.0, 110.0


@dataclass(frozen=True)
class Part:
    """One part of a session."""

    seconds: int  # the most that it may take
    needs: str = ""  # packages without which it is left out
    full: str = ""  # options of the benchmark that it is; empty for a part of `benchmarks.gpu.parts`
    dry: str = ""  # its options on a CPU


SESSION: Mapping[str, Part] = {
    "smoke": Part(60),
    "correctness": Part(120),
    "loop": Part(120),
    "continuous": Part(120),
    "kernels": Part(90, "triton"),
    "training": Part(
        180,
        "click numpy sentencepiece sacrebleu",
        f"{_BASE} --precision=bfloat16 --max-tokens=16384 --compile",
        f"{_TINY} --precision=float32 --max-tokens=300",
    ),
    "serve": Part(
        150,
        "click fastapi sentencepiece httptools",
        f"{_BASE} --precision=bfloat16 --workers=1 --concurrency=64 --concurrency=256 --rounds=3",
        f"{_TINY} --workers=1 --concurrency=2 --seconds=0.3",
    ),
    "recovery": Part(120),
    "profile": Part(90),
    "decode": Part(
        240,
        "click sentencepiece transformers ctranslate2",
        f"{_BASE} --batch-size=1 --batch-size=32 --batch-size=256 --tokens=64 --sentences=512",
        f"{_TINY} --tokens=8 --batch-size=4 {_ONE_OF_EACH}",
    ),
}
"""What a session runs, in this order."""


class Outcome(NamedTuple):
    """What became of a part."""

    part: str
    said: str
    seconds: float = 0
    figures: Mapping[str, float] = {}

    @property
    def is_failure(self) -> bool:
        """Whether it failed; a part that was left out did not."""
        return not self.said.startswith(("done", "left out"))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a session, or one part of it; returns the exit status, 1 if a part failed or did not run."""
    asked = _parser().parse_args(arguments)
    device = "cpu" if asked.dry else "cuda"
    if asked.alone:
        from benchmarks.gpu.parts import DRY, FULL, PARTS

        figures = PARTS[asked.alone](DRY if asked.dry else FULL)
        asked.figures.write_text(json.dumps(figures), encoding="utf-8")
        return 0
    folder = asked.output.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    seconds = asked.seconds or (_DRY_SECONDS if asked.dry else _SECONDS)
    deadline, outcomes = time.monotonic() + seconds, []
    for name in asked.part or SESSION:
        print(f"# {name}", file=sys.stderr, flush=True)
        outcomes.append(_run(name, device, folder, deadline - time.monotonic()))
        _write(outcomes, folder, is_dry=asked.dry)  # after each part: the machine may go at any time
    print((folder / "gpu.md").read_text("utf-8"))
    return int(any(outcome.is_failure for outcome in outcomes))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--dry", action="store_true", help="tiny networks on this CPU: everything but the GPU"
    )
    parser.add_argument("--part", action="append", choices=list(SESSION), help="what to run; all by default")
    parser.add_argument(
        "--seconds", type=float, help=f"most of the session; by default {_SECONDS:g}, dry {_DRY_SECONDS:g}"
    )
    parser.add_argument("--output", type=Path, default=Path("runs/gpu"), help="folder for the reports")
    parser.add_argument("--alone", help=argparse.SUPPRESS)
    parser.add_argument("--figures", type=Path, help=argparse.SUPPRESS)
    return parser


def _run(name: str, device: str, folder: Path, left: float) -> Outcome:
    part, began = SESSION[name], time.monotonic()
    missing = [package for package in part.needs.split() if find_spec(package) is None]
    if missing:
        return Outcome(name, f"left out: needs {', '.join(missing)}")
    if left <= 0:
        return Outcome(name, "not started, no time left")
    file = folder / f"{name}.figures.json"
    file.unlink(missing_ok=True)
    if part.full:
        options = part.dry if device == "cpu" else part.full
        command = [f"benchmarks.{name}", f"--device={device}", f"--output={folder}", *options.split()]
    else:
        flags = ["--dry"] if device == "cpu" else []
        command = ["benchmarks.gpu", "--alone", name, "--figures", str(file), *flags]
    said = _run_apart(command, min(part.seconds, left), folder / f"{name}.log")
    figures = json.loads(file.read_text("utf-8")) if file.exists() else {}
    return Outcome(name, said, time.monotonic() - began, figures)


def _run_apart(command: Sequence[str], seconds: float, log: Path) -> str:
    """Run a module with its options, its output in a file; returns what became of it."""
    with log.open("w", encoding="utf-8") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", *command],
            cwd=_ROOT,
            stdout=output,
            stderr=subprocess.STDOUT,
            # Threads that wait for each other make tiny work on a CPU many times slower.
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            start_new_session=True,
        )
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return f"ended after {seconds:.0f} s, see {log.name}"
    return f"exit status {status}, see {log.name}" if status else "done"


def _write(outcomes: Sequence[Outcome], folder: Path, *, is_dry: bool) -> None:
    """Write `gpu.md` and `gpu.json`."""
    figures = {name: value for outcome in outcomes for name, value in outcome.figures.items()}
    rows = [{"part": each.part, "": each.said, "seconds": f"{each.seconds:.0f}"} for each in outcomes]
    note = "A dry run with tiny networks on a CPU: its figures say nothing of a GPU.\n\n" if is_dry else ""
    predicted = markdown_table(table(figures))
    measured = markdown_table([{"figure": name, "": f"{value:,.6g}"} for name, value in figures.items()])
    title = f"# A session on {'a CPU' if is_dry else 'a GPU'}"
    text = f"{title}\n\n{note}{markdown_table(rows)}\n{predicted}\n{measured}"
    (folder / "gpu.md").write_text(text, encoding="utf-8")
    content = {"is_dry": is_dry, "parts": rows, "predictions": table(figures), "figures": figures}
    (folder / "gpu.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
