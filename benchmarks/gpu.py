"""One session on a GPU: every measurement in a process of its own, each with a time limit.

python -m benchmarks.gpu --output runs/gpu
python -m benchmarks.gpu --device cpu --quick --output runs/gpu
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from benchmarks.harness.options import FOLDER

_ROOT = Path(__file__).parents[1]
_FULL = ("--shape=base",)
_QUICK = ("--shape=tiny",)


@dataclass(frozen=True)
class Part:
    """A benchmark, the most seconds it may take, and its options at full and at quick size."""

    command: str
    seconds: int
    full: Sequence[str] = ()
    quick: Sequence[str] = ()


def _sizes(*sizes: int) -> list[str]:
    return [f"--batch-size={size}" for size in sizes]


PARTS: Mapping[str, Part] = {
    "smoke": Part("decode", 60, ("--shape=tiny", "--rounds=1"), ("--shape=tiny", "--rounds=1", *_sizes(4))),
    "correctness": Part("engines.gpu_checks correctness", 180, _FULL, (*_QUICK, "--sentences=8")),
    "roofline": Part(
        "roofline", 150, (*_FULL, *_sizes(1, 32, 128, 256, 512)), (*_QUICK, "--rounds=1", *_sizes(4))
    ),
    # More sentences than a batch holds: finished ones make place for others at every step.
    "decode": Part(
        "decode",
        180,
        (*_FULL, "--tokens=64", "--sentences=512", *_sizes(1, 32, 256)),
        (*_QUICK, "--rounds=1", "--tokens=8", *_sizes(4)),
    ),
    "serve": Part(
        "serve",
        150,
        (
            *_FULL,
            "--precision=bfloat16",
            "--workers=1",
            "--concurrency=64",
            "--concurrency=256",
            "--rounds=3",
        ),
        (*_QUICK, "--rounds=1", "--workers=1", "--concurrency=2", "--seconds=0.3"),
    ),
    "profile": Part(
        "engines.gpu_checks profile", 60, (*_FULL, "--sentences=512"), (*_QUICK, "--sentences=8")
    ),
    "training": Part(
        "training",
        180,
        (*_FULL, "--precision=bfloat16", "--max-tokens=16384", "--compile"),
        (*_QUICK, "--precision=float32", "--max-tokens=300", "--rounds=1"),
    ),
}
"""What a session measures, in this order."""


@click.command(context_settings={"show_default": True})
@click.option("--device", default="cuda", type=click.Choice(["cpu", "cuda"]), help="Where.")
@click.option("--quick", is_flag=True, help="A tiny network and little work: whether it runs at all.")
@click.option(
    "--part",
    "names",
    multiple=True,
    type=click.Choice(list(PARTS)),
    default=list(PARTS),
    help="What to measure; all by default.",
)
@click.option("--seconds", default=540, help="Most seconds of the whole session.")
@click.option("--output", type=FOLDER, default="runs/gpu", help="Folder for the reports.")
def main(device: str, quick: bool, names: Sequence[str], seconds: int, output: Path) -> None:
    """Measure a GPU part by part; a part that fails or takes too long does not stop the next.

    Exit status 1 if a part failed or did not run.
    """
    deadline = time.monotonic() + seconds
    failures: list[str] = []
    for name in names:
        part = PARTS[name]
        where = [f"--device={device}", f"--name={name}", f"--output={output.resolve()}"]
        order = [*f"benchmarks.{part.command}".split(), *where, *(part.quick if quick else part.full)]
        click.echo(f"# {name}: {' '.join(order)}", err=True)
        left = min(part.seconds, deadline - time.monotonic())
        if failure := _run(order, left) if left > 0 else "not started, as the session's time was over":
            failures.append(f"{name}: {failure}")
    for failure in failures:
        click.echo(f"Failed: {failure}")
    if failures:
        raise click.exceptions.Exit(1)


def _run(order: Sequence[str], seconds: float) -> str:
    """Run a module with its options; says what went wrong, if anything did."""
    process = subprocess.Popen([sys.executable, "-m", *order], cwd=_ROOT, start_new_session=True)
    try:
        status = process.wait(seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return f"ended after {seconds:.0f} s"
    return f"exit status {status}" if status else ""


if __name__ == "__main__":
    main()
