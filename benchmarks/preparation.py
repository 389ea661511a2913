"""How long corpora take to become token ids, and how much memory: made-up pairs of any number.

python -m benchmarks.preparation --pairs 200000 --pairs 1000000
python -m benchmarks.preparation --pairs 10000000 --augmented --output runs/bench

Each stage of each number runs in a process of its own, so that its peak is nobody else's.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import click

from benchmarks.machine import describe_machine, load_average
from benchmarks.options import Benchmark, numbers
from benchmarks.preparation_work import CORPUS_FILE, STAGES, write_made_up_pairs
from benchmarks.report import Report, Table, mebibytes

_COLUMNS = ("stage", "pairs", "seconds", "of computing", "pairs/s", "peak MiB", "over the start MiB")
_ROOT = Path(__file__).parents[1]
_NOTE = (
    "Pairs are undirected; both directions are trained, so twice as many are tokenised. `over the start` "
    "leaves out what Python and the libraries take. Growth is that of the peak from one number to the next."
)


@click.command(cls=Benchmark)
@numbers("pairs", "sizes", [50_000, 200_000], "Pairs of a corpus; repeat it to see how memory grows.")
@click.option("--augmented", is_flag=True, help="With altered copies at the rates docs/training.md gives.")
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the corpus is written, about 150 bytes a pair, and its ids; a temporary folder by default.",
)
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for Markdown and JSON; without it, the table is only printed.",
)
def main(sizes: Sequence[int], augmented: bool, folder: Path | None, output: Path | None) -> None:
    """Make corpora, learn a vocabulary from each, and tokenise it."""
    load_before = load_average()
    with tempfile.TemporaryDirectory(dir=folder) as place:
        results = [each for size in sorted(sizes) for each in _measured(Path(place), size, augmented)]
    report = Report(
        name="preparation",
        machine=describe_machine([os.cpu_count() or 1]),
        loads=(load_before, load_average()),
        settings={"augmented": augmented},
        notes=[_NOTE],
        tables=[
            Table(title="Preparation", columns=_COLUMNS, rows=[_row(result) for result in results]),
            Table(title="Growth", columns=("stage", "bytes a pair"), rows=list(_growth(results))),
        ],
        results=[{"kind": "stage", **result} for result in results],
    )
    click.echo(report.markdown())
    if output is not None:
        report.write(output)


Result = dict[str, float | str]


def _measured(place: Path, size: int, augmented: bool) -> Iterator[Result]:
    click.echo(f"making {size:,} pairs", err=True)
    write_made_up_pairs(place / CORPUS_FILE, size)
    for stage in STAGES:
        order = [sys.executable, "-m", "benchmarks.preparation_work", stage, str(place), str(int(augmented))]
        finished = subprocess.run(order, cwd=_ROOT, stdout=subprocess.PIPE, check=True, text=True)
        yield {"stage": stage, "pairs": size, **json.loads(finished.stdout)}


def _row(result: Result) -> Sequence[str]:
    pairs, seconds = float(result["pairs"]), float(result["seconds"])
    over = int(result["peak"]) - int(result["start"])
    return (
        str(result["stage"]),
        f"{pairs:,.0f}",
        f"{seconds:.1f}",
        f"{result['processor']:.1f}",
        f"{pairs / seconds:,.0f}",
        mebibytes(int(result["peak"])),
        mebibytes(over),
    )


def _growth(results: Sequence[Result]) -> Iterator[Sequence[str]]:
    for stage in STAGES:
        of_stage = [result for result in results if result["stage"] == stage]
        for before, after in pairwise(of_stage):
            pairs = float(after["pairs"]) - float(before["pairs"])
            if pairs > 0:
                yield stage, f"{(float(after['peak']) - float(before['peak'])) / pairs:.0f}"


if __name__ == "__main__":
    main()
