"""`dragoman average`: one checkpoint from several."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from model.cli.options import only_checkpoint, output_folder, require_replaceable, storage_option

if TYPE_CHECKING:
    from model.checkpoint.weights import StorageType


@click.command()
@click.argument("checkpoints", metavar="CHECKPOINT...", nargs=-1, type=only_checkpoint)
@output_folder
@storage_option
def average(checkpoints: tuple[Path, ...], output: Path, storage: "StorageType | None") -> None:
    """Write the mean of the weights of two or more CHECKPOINTs, or store one CHECKPOINT in another type.

    They must have one shape and vocabulary and a common origin: steps of one run, or runs that began with the
    same weights. The card is that of the first. Tune the search of the mean afterwards: `dragoman tune`.
    """
    from model.checkpoint.editing import average_checkpoints
    from model.checkpoint.folder import load_checkpoint

    if len(checkpoints) < (1 if storage else 2):
        requirement = "two or more, or one with --storage"
        raise click.UsageError(f"CHECKPOINT... must be {requirement}, but is {len(checkpoints)} instead")
    require_replaceable(output, checkpoints)
    average_checkpoints([load_checkpoint(each) for each in checkpoints], output, storage)
    click.echo(f"Written: {output}")
