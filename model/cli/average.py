"""`dragoman average`: one checkpoint from several."""

from pathlib import Path

import click

from model.cli.options import only_checkpoint, output_folder, require_replaceable


@click.command()
@click.argument("checkpoints", metavar="CHECKPOINT...", nargs=-1, type=click.Path(path_type=Path))
@output_folder
def average(checkpoints: tuple[Path, ...], output: Path) -> None:
    """Write the mean of the weights of two or more CHECKPOINTs.

    They must have one shape and vocabulary and a common origin: steps of one run, or runs that began with the
    same weights. The card is that of the first. Tune the search of the mean afterwards: `dragoman tune`.
    """
    from model.checkpoint.editing import average_checkpoints
    from model.checkpoint.folder import load_checkpoint

    if len(checkpoints) < 2:
        raise click.UsageError(f"CHECKPOINT... must be two or more, but is {len(checkpoints)} instead")
    sources = [only_checkpoint(each) for each in checkpoints]
    require_replaceable(output, sources)
    average_checkpoints([load_checkpoint(source) for source in sources], output)
    click.echo(f"Written: {output}")
