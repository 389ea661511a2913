"""`dragoman report`: the results of a training run, as a page for a browser."""

from pathlib import Path

import click

from model.cli.main import Failure


@click.command()
@click.argument("run", metavar="RUN_FOLDER", type=click.Path(path_type=Path, file_okay=False, exists=True))
@click.option(
    "--attention",
    type=click.IntRange(min=0),
    metavar="N",
    help="Sentences of each direction whose attention is drawn; by default as in the run's configuration.",
)
def report(run: Path, attention: int | None) -> None:
    r"""Write RUN_FOLDER/report/index.html: scores, curves, sentences, attention.

    A run writes its report when it ends. This command writes it again, or writes it for a run that is under
    way, was interrupted or killed, or was trained without the extra `train`.

    \b
    Example:
      dragoman report runs/mine
    """
    from model.training.run_folder.folder import RunFolder

    try:
        from model.training.report.page import write_report

        page = write_report(RunFolder(run), attention=attention)
    except ModuleNotFoundError as missing:
        raise Failure(f"a report needs {missing.name}: pip install --editable '.[train]'") from missing
    click.echo(page)
