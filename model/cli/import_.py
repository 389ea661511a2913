"""`dragoman import`: a checkpoint from a model of another framework."""

from pathlib import Path

import click

from model.checkpoint.card import Pair
from model.checkpoint.importing.recognise import FORMATS
from model.cli.main import Misuse
from model.cli.options import output_folder, require_replaceable


@click.command(name="import")
@click.argument("origin")
@output_folder
@click.option(
    "--format",
    "format_name",
    type=click.Choice([each.name for each in FORMATS]),
    help="Format of ORIGIN; recognised if omitted.",
)
@click.option("--pair", metavar="SOURCE-TARGET", help="Languages, such as en-fr; the model's own if omitted.")
@click.option("--name", help="Name of the checkpoint; the model's own if omitted.")
def import_(origin: str, output: Path, format_name: str | None, pair: str | None, name: str | None) -> None:
    """Convert ORIGIN, a model of another framework, to a checkpoint folder.

    ORIGIN is a folder or a file. The folder is verified, and written completely or not at all.
    """
    from model.checkpoint.importing.importer import import_model

    path = Path(origin)
    require_replaceable(output, [path])
    import_model(path, output, format_name=format_name, pair=_pair(pair), name=name)
    click.echo(f"Written: {output}")


def _pair(text: str | None) -> Pair | None:
    if text is None:
        return None
    source, _, target = text.partition("-")
    if not source or not target:
        raise Misuse(f"--pair must be two language codes such as en-fr, but is {text}")
    return source, target
