"""One session on a GPU: every benchmark in a process of its own, each with a time limit.

python -m benchmarks.gpu --output runs/gpu
python -m benchmarks.gpu --device cpu --quick --output runs/gpu
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from benchmarks.harness.options import FOLDER

_ROOT = Path(__file__).parents[1]
_BASE, _TINY = "--shape=base", "--shape=tiny --rounds=1"
_SIZES = "--batch-size=1 --batch-size=32 --batch-size=256"
# More sentences than a batch holds: the engines refill freed slots at every step.
PARTS: Mapping[str, tuple[int, str, str]] = {
    "decode": (240, f"{_BASE} {_SIZES} --tokens=64 --sentences=512", f"{_TINY} --tokens=8 --batch-size=4"),
    "roofline": (150, f"{_BASE} {_SIZES}", f"{_TINY} --batch-size=4"),
    "serve": (
        150,
        f"{_BASE} --precision=bfloat16 --workers=1 --concurrency=64 --concurrency=256 --rounds=3",
        f"{_TINY} --workers=1 --concurrency=2 --seconds=0.3",
    ),
    "training": (
        180,
        f"{_BASE} --precision=bfloat16 --max-tokens=16384 --compile",
        f"{_TINY} --precision=float32 --max-tokens=300",
    ),
}
"""What a session runs, in this order: the most seconds, the options, and the options of a quick session."""


@click.command(context_settings={"show_default": True})
@click.option("--device", default="cuda", type=click.Choice(["cpu", "cuda"]), help="Where.")
@click.option("--quick", is_flag=True, help="A tiny network and little work: whether it runs at all.")
@click.option(
    "--part", "names", multiple=True, type=click.Choice(list(PARTS)), default=list(PARTS), help="What to run."
)
@click.option("--seconds", default=540, help="Most seconds of the whole session.")
@click.option("--output", type=FOLDER, default="runs/gpu", help="Folder for the reports.")
def main(device: str, quick: bool, names: Sequence[str], seconds: int, output: Path) -> None:
    """Check the translations on a GPU and measure it; a part that fails does not stop the next.

    Exit status 1 if a part failed or did not run.
    """
    deadline, failures = time.monotonic() + seconds, []
    for name in names:
        most, full, small = PARTS[name]
        options = [f"--device={device}", f"--output={output.resolve()}", *(small if quick else full).split()]
        click.echo(f"# {name}: {' '.join(options)}", err=True)
        left = min(most, deadline - time.monotonic())
        failure = _run([f"benchmarks.{name}", *options], left) if left > 0 else "not started, no time left"
        failures += [f"{name}: {failure}"] if failure else []
    for failure in failures:
        click.echo(f"Failed: {failure}")
    if failures:
        raise click.exceptions.Exit(1)


def _run(command: Sequence[str], seconds: float) -> str:
    """Run a module with its options; returns what went wrong, or an empty text."""
    process = subprocess.Popen([sys.executable, "-m", *command], cwd=_ROOT, start_new_session=True)
    try:
        status = process.wait(seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return f"ended after {seconds:.0f} s"
    return f"exit status {status}" if status else ""


if __name__ == "__main__":
    main()
