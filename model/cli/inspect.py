"""`dragoman inspect`: the content of a checkpoint folder; `dragoman attention`: where its network looks."""

import json
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from model.cli.main import Failure
from model.cli.options import (
    Languages,
    Setup,
    checkpoint_argument,
    decoding_options,
    language_options,
    only_checkpoint,
    setup_options,
)

if TYPE_CHECKING:
    from model.checkpoint.folder import Checkpoint
    from model.translation.result import SentenceTranslation

Report = Mapping[str, object]


@click.command()
@checkpoint_argument
@click.option("--json", "as_json", is_flag=True, help="Report as JSON.")
def inspect(checkpoint: Path, as_json: bool) -> None:
    """Verify CHECKPOINT and show what it holds.

    CHECKPOINT is a checkpoint folder, or a folder that holds one. The report has its configuration,
    parameters, languages, tokenizer, provenance and checksums. A broken folder is refused with the name of
    the file or tensor at fault.
    """
    from model.checkpoint.folder import load_checkpoint

    report = describe(load_checkpoint(checkpoint))
    click.echo(json.dumps(report, indent=2, ensure_ascii=False) if as_json else "\n".join(_lines(report)))


def describe(checkpoint: "Checkpoint") -> Report:
    """Returns a description of a checkpoint as JSON values."""
    card, tokenizer = checkpoint.card, checkpoint.tokenizer
    return {
        "name": card.name,
        "version": card.version,
        "checksum": checkpoint.checksum,
        "languages": [f"{source} → {target}" for source, target in card.pairs],
        "limits": {"max_source_length": card.max_source_length, "max_target_length": card.max_target_length},
        "parameters": _parameters(checkpoint),
        "architecture": checkpoint.config.to_dict(),
        "tokenizer": {
            "shared": tokenizer.is_shared,
            "source_vocab_size": tokenizer.source_vocab_size,
            "target_vocab_size": tokenizer.target_vocab_size,
            "special_ids": {name: getattr(tokenizer, f"{name}_id") for name in ("pad", "bos", "eos", "unk")},
            "language_tags": dict(tokenizer.language_tags),
        },
        "decoding": card.decoding.to_dict(),
        "provenance": {key: value for key, value in checkpoint.provenance.items() if key != "files"},
        "files": checkpoint.provenance["files"],
    }


def _parameters(checkpoint: "Checkpoint") -> Report:
    from model.network.parameters import count_parameters, parameter_shapes

    shapes = parameter_shapes(checkpoint.config)
    return {
        "total": count_parameters(shapes),
        "without_embeddings": count_parameters(shapes, embeddings=False),
        "stored_as": sorted(set(checkpoint.weights.dtypes.values())),
        "bytes": checkpoint.weights.nbytes,
    }


def _lines(report: Report, depth: int = 0) -> Iterator[str]:
    """Yields the description as lines, one for each value, nested values indented."""
    indent = "  " * depth
    for key, value in report.items():
        if isinstance(value, Mapping) and value:
            yield f"{indent}{key}:"
            yield from _lines(value, depth + 1)
        else:
            yield f"{indent}{key}: {_shown(value)}"


def _shown(value: object) -> str:
    if isinstance(value, list) and all(isinstance(item, str | int | float) for item in value):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


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
