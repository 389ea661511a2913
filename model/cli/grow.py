"""`dragoman grow`: a deeper checkpoint with equal translations, for further training."""

from pathlib import Path

import click

from model.cli.options import checkpoint_argument, output_folder, require_replaceable


@click.command()
@checkpoint_argument
@click.option("--encoder-layers", type=click.IntRange(min=1), help="Number of layers.  [default: unchanged]")
@click.option("--decoder-layers", type=click.IntRange(min=1), help="Number of layers.  [default: unchanged]")
@output_folder
def grow(checkpoint: Path, encoder_layers: int | None, decoder_layers: int | None, output: Path) -> None:
    """Write CHECKPOINT with more layers, for further training.

    The new layers add nothing until they are trained (`run.start_from`), so that its translations are equal
    and training continues from them. Only pre-norm networks can be deepened.
    """
    from model.checkpoint.editing import deepen_checkpoint
    from model.checkpoint.folder import load_checkpoint

    require_replaceable(output, [checkpoint])
    origin = load_checkpoint(checkpoint)
    deepen_checkpoint(
        origin,
        output,
        num_encoder_layers=encoder_layers or origin.config.num_encoder_layers,
        num_decoder_layers=decoder_layers or origin.config.num_decoder_layers,
    )
    click.echo(f"Written: {output}")
