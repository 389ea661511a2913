"""`dragoman average`: one checkpoint from several."""

from pathlib import Path

import click

from model.cli.options import only_checkpoint, output_folder, require_replaceable


@click.command()
@click.argument("checkpoints", metavar="CHECKPOINT...", nargs=-1, type=click.Path(path_type=Path))
@output_folder
def average(checkpoints: tuple[Path, ...], output: Path) -> None:
    """Write the mean of the weights of two or more CHECKPOINTs, with the card of the first.

    They must be of one shape and vocabulary, and have a past in common: moments of one run, or runs that
    began with the same weights. Choose its search anew: `dragoman tune`.
    """
    from model.checkpoint.editing import average_checkpoints
    from model.checkpoint.folder import load_checkpoint

    if len(checkpoints) < 2:
        raise click.UsageError(f"CHECKPOINT... must be two or more, but is {len(checkpoints)} instead")
    sources = [only_checkpoint(each) for each in checkpoints]
    require_replaceable(output, sources)
    average_checkpoints([load_checkpoint(source) for source in sources], output)
    click.echo(f"Written: {output}")
