"""`dragoman export`: a checkpoint for CTranslate2 or Hugging Face."""

from pathlib import Path

import click

from model.checkpoint.exporting import QUANTIZATIONS
from model.cli.options import checkpoint_argument, output_folder, require_replaceable


@click.command()
@checkpoint_argument
@click.option(
    "--format",
    "export_format",
    type=click.Choice(tuple(QUANTIZATIONS)),
    required=True,
    help="Format to write.",
)
@output_folder
@click.option(
    "--quantization",
    type=click.Choice(QUANTIZATIONS["ctranslate2"]),
    default="float32",
    show_default=True,
    help="Number type to store; only CTranslate2 has the integer types.",
)
def export(checkpoint: Path, export_format: str, output: Path, quantization: str) -> None:
    r"""Write CHECKPOINT in the format of another framework.

    CHECKPOINT is a checkpoint folder, or a folder that holds one. The output has the weights, the vocabulary,
    the SentencePiece models and a README that shows how to use it. In float32 its greedy translations equal
    Dragoman's.

    \b
    ctranslate2  CTranslate2's Translator; every variant but standard-deviation norms, and
                 final norms after post-norm layers
    marian       Hugging Face MarianMTModel: post-norm, sinusoidal positions
                 (presets base, big, postnorm, d2l)
    pegasus      Hugging Face PegasusForConditionalGeneration: pre-norm with final norms,
                 sinusoidal positions, tied embeddings (preset small)

    \b
    The packages come with: pip install --constraint constraints.txt --editable '.[export]'
    """
    from model.checkpoint.exporting.export import export_checkpoint
    from model.checkpoint.folder import load_checkpoint

    require_replaceable(output, [checkpoint])
    export_checkpoint(load_checkpoint(checkpoint), output, export_format, quantization)
    click.echo(f"Written: {output}")
