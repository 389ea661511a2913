"""How many requests a service answers, and how fast: ours beside FastAPI with CTranslate2, and an echo.

python -m benchmarks.serve --shape small --output runs/bench
python -m benchmarks.serve --checkpoint checkpoints --source-file FILE
"""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from benchmarks.checkpoints import random_checkpoint
from benchmarks.contest import EXACT, Contest, contest_options, loads, measure, recipes
from benchmarks.engine import OURS
from benchmarks.machine import describe_machine, load_average
from benchmarks.options import Benchmark, Timing, timing_options
from benchmarks.plots import plot_lines
from benchmarks.report import Report, Table
from benchmarks.servers import Server
from benchmarks.service import (
    COLUMNS,
    COST_COLUMNS,
    RATIO_COLUMNS,
    Showing,
    compare,
    cost_cells,
    cost_dict,
)
from benchmarks.shapes import SHAPES
from model.checkpoint.folder import load_checkpoint
from model.checkpoint.formats.export import export_checkpoint
from model.cli.options import only_checkpoint

_METHOD = (
    "All services run at once and take turns under each load, which one process with so many open "
    "connections produces, each with its next request as soon as it has an answer. The cores are shared by "
    "the services, the generator and this command. Latencies are medians of the rounds' percentiles. "
    "*Changed under load*: texts whose translation was not always the one they get alone. *As the "
    "reference*: those that are translated as by our PyTorch path in float32."
)


@click.command(cls=Benchmark)
@click.option(
    "--shape", default="small", show_default=True, type=click.Choice(list(SHAPES)), help="Random network."
)
@click.option("--checkpoint", type=click.Path(exists=True, path_type=Path), help="Serve this one instead.")
@click.option(
    "--source-file",
    type=click.Path(exists=True, path_type=Path),
    help="Real texts, a sentence a line, instead of random words; what follows a tab is left out.",
)
@click.option("--target", default="fr", show_default=True, help="Language to translate into.")
@contest_options
@timing_options
def main(
    shape: str,
    checkpoint: Path | None,
    source_file: Path | None,
    target: str,
    contest: Contest,
    timing: Timing,
) -> None:
    """Put services under the same loads in turns.

    Exit status 1 if one of ours fails a request or gives a text another translation under load, or if
    in float32 a service translates otherwise than the reference.
    """
    load_before = load_average()
    with TemporaryDirectory() as scratch, ExitStack() as running:
        if checkpoint is None:
            folder = random_checkpoint(Path(scratch) / shape, shape, timing.seed)
        else:
            folder = only_checkpoint(checkpoint)
        served = load_checkpoint(folder)
        exported = Path(scratch) / "exported"
        export_checkpoint(served, exported, "ctranslate2", contest.precision)
        given = loads(served, source_file, target, contest, timing.seed)
        servers = [
            running.enter_context(Server(recipe))
            for recipe in recipes(folder, exported, served.card, contest)
        ]
        showings = measure(servers, given, served, timing.rounds)
        costs = [(cost_cells(server), cost_dict(server)) for server in servers]
    report = Report(
        name=timing.name or "serve",
        machine=describe_machine(contest.workers),
        loads=(load_before, load_average()),
        settings={"network": served.card.name, "contest": contest, "timing": timing},
        notes=[timing.note(), _METHOD],
        tables=[
            Table(title="Ours divided by theirs", columns=RATIO_COLUMNS, rows=_ratios(showings, contest)),
            Table(title="All services", columns=COLUMNS, rows=[each.cells() for each in showings]),
            Table(title="Start and memory", columns=COST_COLUMNS, rows=[cells for cells, _ in costs]),
        ],
        results=[*(each.to_dict() for each in showings), *(values for _, values in costs)],
    )
    timing.deliver(report, lambda path: _plot(showings, contest, path))
    if any(_is_wrong(each, contest) for each in showings):
        raise click.exceptions.Exit(1)


def _is_wrong(showing: Showing, contest: Contest) -> bool:
    is_ours = showing.service.startswith(OURS)
    is_unsteady = is_ours and (showing.changed > 0 or any(each.failures for each in showing.rounds))
    is_exact = contest.precision == EXACT and contest.search == "greedy"
    return is_unsteady or (is_exact and showing.agreeing < showing.expected)


def _ratios(showings: Sequence[Showing], contest: Contest) -> list[tuple[str, ...]]:
    """Ours over CTranslate2's, a row a load and a number of workers."""
    found = {(each.load.name, each.load.concurrency, each.service): each for each in showings}
    keys = dict.fromkeys((each.load.name, each.load.concurrency) for each in showings)
    names = list(dict.fromkeys(each.service for each in showings))
    return [
        (*map(str, key), str(workers), *compare(found[*key, ours], found[*key, theirs]))
        for key in keys
        for workers, ours, theirs in zip(contest.workers, names[::2], names[1::2], strict=False)
    ]


def _plot(showings: Sequence[Showing], contest: Contest, path: Path) -> None:
    panels: dict[str, dict[str, list[float]]] = {}
    for each in showings:
        kind = each.load.name
        figures = {
            f"{kind}: requests/s": each.rate,
            f"{kind}: p99, ms": each.latency(0.99) * 1e3,
        }
        if kind == "mixed":
            figures["mixed: p99 of short ones, ms"] = each.latency(0.99, short=True) * 1e3
        for quantity, value in figures.items():
            panels.setdefault(quantity, {}).setdefault(each.service, []).append(value)
    plot_lines(panels, contest.concurrency, "concurrent requests", path)


if __name__ == "__main__":
    main()
