"""`dragoman attention`: pictures of the attention weights of a translation, as PNG."""

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from model.cli.main import Failure
from model.cli.options import (
    Languages,
    Setup,
    decoding_options,
    language_options,
    only_checkpoint,
    setup_options,
)

if TYPE_CHECKING:
    from model.checkpoint.folder import Checkpoint
    from model.translation.result import SentenceTranslation


@click.command()
@click.argument("texts", metavar="TEXT...", nargs=-1, required=True)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    metavar="FOLDER",
    help="Folder to write, with a folder 1, 2, ... in it for each sentence.",
)
@language_options
@setup_options
@decoding_options
def attention(
    texts: tuple[str, ...],
    output: Path,
    languages: Languages,
    setup: Setup,
    decoding: Mapping[str, object],
) -> None:
    r"""Translate each TEXT and draw its attention weights.

    A picture shows the heads of one layer side by side: encoder-1.png, decoder-1.png, cross-1.png
    and so on. A row is a query position, a column a key position.

    \b
    Example:
      dragoman attention -s en -t fr --output heat-maps "he's calm ." "i'm home ."
    """
    if find_spec("matplotlib") is None:
        raise Failure("pictures need matplotlib: pip install --editable '.[train]'")
    from model.checkpoint.folder import load_checkpoint

    sentences = _translate(texts, languages, setup, decoding)
    if not sentences:
        raise Failure("nothing to draw: no TEXT has a sentence to translate")
    checkpoint = load_checkpoint(only_checkpoint(setup.checkpoint))
    for number, sentence in enumerate(sentences, start=1):
        place = output / str(number)
        count = _draw(checkpoint, sentence, place)
        click.echo(f"{sentence.source} → {sentence.text}  ({count} pictures in {place})")


def _translate(
    texts: tuple[str, ...], languages: Languages, setup: Setup, decoding: Mapping[str, object]
) -> "list[SentenceTranslation]":
    translator = setup.load()
    source, target = languages.resolve(translator.card, "\n".join(texts))
    fields = [f"text {number}" for number in range(1, len(texts) + 1)]
    options = translator.card.options(decoding)
    translations = translator.translate(texts, source=source, target=target, options=options, fields=fields)
    return [sentence for translation in translations for sentence in translation.sentences]


def _draw(checkpoint: "Checkpoint", sentence: "SentenceTranslation", folder: Path) -> int:
    """Draws in float32 on the CPU, whatever precision the translation used."""
    from model.training.report.pictures import write_heat_maps

    tokenizer, best = checkpoint.tokenizer, sentence.hypotheses[0]
    start_ids = sentence.request.start_ids
    target_ids = (*start_ids, *best.token_ids, *([tokenizer.eos_id] if best.finished else []))
    source_ids = sentence.request.source_ids
    return len(write_heat_maps(checkpoint.network(), source_ids, target_ids, tokenizer, folder))
