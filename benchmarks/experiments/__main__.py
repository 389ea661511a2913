"""Train variants of one recipe for equally many steps, and compare what they translate.

python -m benchmarks.experiments examples/experiments/multi30k.toml --data FOLDER --steps 3000
"""

from collections.abc import Sequence
from itertools import product
from pathlib import Path

import click

from benchmarks.experiments.comparison import comparison
from benchmarks.experiments.judging import Outcome, run_variant
from benchmarks.experiments.plan import UNCHANGED, read_experiment, sharing_pieces
from benchmarks.limited_run import Deadline
from benchmarks.machine import load_average
from benchmarks.options import UNFINISHED, Benchmark, numbers, show_training_log
from benchmarks.recipes import ROOT, recipe_options


@click.command(cls=Benchmark)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--steps", type=click.IntRange(min=1), help="Of each variant, in the place of the file's.")
@click.option("--variant", "chosen", multiple=True, help="Only these, beside the unchanged one.")
@numbers("seed", "seeds", [1], "Each variant is trained once a seed; may be repeated.")
@click.option("--sentences", type=click.IntRange(min=0), default=0, help="Of a direction; 0 is all.")
@click.option(
    "--runs",
    type=click.Path(file_okay=False, path_type=Path),
    default=ROOT / "runs" / "experiments",
    help="Folder of the runs.",
)
@recipe_options
def main(
    file: Path,
    steps: int | None,
    chosen: Sequence[str],
    seeds: Sequence[int],
    sentences: int,
    runs: Path,
    data: Path | None,
    changes: dict[str, object],
    max_minutes: float,
    device: str,
    output: Path | None,
) -> None:
    """Compare the variants of FILE, one after the other; the table is written after each.

    The same command goes on where the last one was, after a kill too. Exit status 75 if there is more to
    do after --max-minutes.
    """
    show_training_log()
    deadline, load = Deadline.after(max_minutes), load_average()
    experiment = read_experiment(file, changes, steps)
    unknown = [name for name in chosen if name not in experiment.variants]
    if unknown:
        raise click.UsageError(f"--variant {unknown[0]!r} must be one of {', '.join(experiment.variants)}")
    names = [name for name in experiment.variants if not chosen or name in (UNCHANGED, *chosen)]
    # All are checked before the first one takes hours.
    runs_of = list(product(names, seeds))
    configs = {run: experiment.config(*run, data=data, runs=runs) for run in runs_of}
    outcomes: list[Outcome] = []
    for (name, _), config in sharing_pieces(configs).items():
        outcome = run_variant(
            name, config, experiment.searches, sentences=sentences, device=device, deadline=deadline
        )
        if outcome is None:
            click.echo(f"{name} is not finished yet: give the same command again", err=True)
            raise click.exceptions.Exit(UNFINISHED)
        outcomes.append(outcome)
        report = comparison(experiment, outcomes, load)
        if output is not None:
            report.write(output)
    click.echo(report.markdown())


if __name__ == "__main__":
    main()
