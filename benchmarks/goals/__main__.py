"""Train a model of examples/goals, choose its search on validation text, and score it on the test sets.

python -m benchmarks.goals multi30k-de-en --data FOLDER --output docs/results
python -m benchmarks.goals tatoeba-en-fr --data FOLDER --max-minutes 9 --set run.compile=true
"""

from pathlib import Path
from typing import NoReturn

import click

from benchmarks.goals.catalogue import goals_of, trained_goals
from benchmarks.goals.results import goals_report
from benchmarks.goals.scoring import score, tune
from benchmarks.limited_run import Deadline, train
from benchmarks.machine import load_average
from benchmarks.options import UNFINISHED, Benchmark, show_training_log
from benchmarks.recipes import DATA, read_recipe, recipe_options
from model.training.report.log import Journal
from model.training.report.provenance import plain_config
from model.training.run_folder.folder import RunFolder


@click.command(cls=Benchmark)
@click.argument("goal")
@click.option(
    "--run", "folder", type=click.Path(path_type=Path), help="Of the run; by default what the recipe says."
)
@click.option("--tune-sentences", type=click.IntRange(min=0), default=0, help="Of a direction; 0 is all.")
@recipe_options
def main(
    goal: str,
    folder: Path | None,
    tune_sentences: int,
    data: Path | None,
    changes: dict[str, object],
    max_minutes: float,
    device: str,
    output: Path | None,
) -> None:
    """Do what is left to do for GOAL, a goal or a model: train, tune, score, report.

    The model's other goals are scored as well, if the configuration trains their direction.

    Everything is kept in the run's folder: the same command goes on where the last one was, after a kill
    too. Exit status 75 if there is more to do after --max-minutes.
    """
    show_training_log()
    deadline, load = Deadline.after(max_minutes), load_average()
    config = read_recipe(goals_of(goal)[0].recipe, changes, data=data, folder=folder)
    goals = trained_goals(goal, config.pairs)
    run = RunFolder(Path(config.run.folder))
    ending = train(config, deadline)
    best = run.best_checkpoint
    if ending is None or deadline.is_past:
        _stop(f"{run.root} is not finished yet: give the same command again")
    tune(best, config, device=device, sentences=tune_sentences)
    evaluations = list(score(best, goals, data or DATA, device=device, deadline=deadline))
    if len(evaluations) < len(goals):
        _stop("not all is scored yet: give the same command again")
    validations = Journal(run.log).events("validation")
    report = goals_report(config.card.name, evaluations, validations, ending, plain_config(config), load)
    if output is not None:
        report.write(output)
    click.echo(report.markdown())
    click.echo(f"Checkpoint: {best}", err=True)


def _stop(message: str) -> NoReturn:
    click.echo(message, err=True)
    raise click.exceptions.Exit(UNFINISHED)


if __name__ == "__main__":
    main()
