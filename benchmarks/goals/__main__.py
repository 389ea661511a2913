"""Train a model of examples/goals, choose its search on validation text, and score it on the test sets.

python -m benchmarks.goals multi30k-de-en --data FOLDER --output docs/results
python -m benchmarks.goals tatoeba-en-fr --data FOLDER --max-minutes 9 --set run.compile=true
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import click

from benchmarks.goals.catalogue import goals_of
from benchmarks.goals.results import goals_report
from benchmarks.goals.scoring import score, tune
from benchmarks.limited_run import Deadline, train
from benchmarks.options import show_training_log
from benchmarks.recipes import read_changes, read_recipe
from model.training.reporting.journal import Journal
from model.training.reporting.provenance import plain_config
from model.training.run_folder import RunFolder

UNFINISHED = 75
"""Exit status where there is more to do: the system's own for `try again later`."""


@click.command()
@click.argument("goal")
@click.option(
    "--data",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=Path("data"),
    show_default=True,
    help="Folder with multi30k, tatoeba-en-fr, ….",
)
@click.option(
    "--run", "folder", type=click.Path(path_type=Path), help="Of the run; by default what the recipe says."
)
@click.option(
    "--with",
    "files",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    multiple=True,
    help="TOML file whose sections are laid over the recipe's; may be repeated.",
)
@click.option(
    "--set", "assignments", metavar="SECTION.NAME=VALUE", multiple=True, help="One value; may be repeated."
)
@click.option(
    "--max-minutes", type=click.FloatRange(min=0), default=0, help="Begin nothing long after so many."
)
@click.option("--tune-sentences", type=click.IntRange(min=0), default=0, help="Of a direction; 0 is all.")
@click.option("--device", default="auto", show_default=True, help="Where to tune and to score.")
@click.option(
    "--output", type=click.Path(file_okay=False, path_type=Path), help="Folder for Markdown and JSON."
)
def main(
    goal: str,
    data: Path,
    folder: Path | None,
    files: Sequence[Path],
    assignments: Sequence[str],
    max_minutes: float,
    tune_sentences: int,
    device: str,
    output: Path | None,
) -> None:
    """Do what is left to do for GOAL, a goal or a model: train, tune, score, report.

    Everything is kept in the run's folder: the same command goes on where the last one was, after a kill
    too. Exit status 75 if there is more to do after --max-minutes.
    """
    show_training_log()
    deadline = Deadline.after(max_minutes)
    goals = goals_of(goal)
    config = read_recipe(goals[0].recipe, read_changes(files, assignments), data=data, folder=folder)
    run = RunFolder(Path(config.run.folder))
    ending = train(config, deadline)
    best = run.checkpoints / "best"
    if ending is None or deadline.is_past:
        _stop(f"{run.root} is not finished yet: give the same command again")
    tune(best, config, device=device, sentences=tune_sentences)
    evaluations = list(score(best, goals, data, device=device, deadline=deadline))
    if len(evaluations) < len(goals):
        _stop("not all is scored yet: give the same command again")
    report = goals_report(
        goals[0].model, evaluations, Journal(run.log).events("validation"), ending, plain_config(config)
    )
    if output is not None:
        report.write(output)
    click.echo(report.markdown())
    click.echo(f"Checkpoint: {best}", err=True)


def _stop(message: str) -> NoReturn:
    click.echo(message, err=True)
    raise click.exceptions.Exit(UNFINISHED)


if __name__ == "__main__":
    main()
