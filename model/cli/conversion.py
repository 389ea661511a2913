"""`dragoman import` and `dragoman export`: models of other frameworks."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from model.checkpoint.card import Pair
from model.checkpoint.exporting import QUANTIZATIONS
from model.checkpoint.importing.formats import FORMATS
from model.cli.main import Misuse
from model.cli.options import checkpoint_argument, output_folder, require_replaceable, storage_option
from model.text.languages import is_language_code

if TYPE_CHECKING:
    from model.checkpoint.folder import Checkpoint
    from model.checkpoint.weights import StorageType

_MOST_DIRECTIONS = 4
"""Directions of which self-test sentences are recorded."""
_KV_SLOTS = 256
"""KV slots for one of these sentences; the usual number would take as much memory as a small model."""


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
@click.option("--revision", help="Branch, tag or commit of a model of the hub.")
@click.option("--name", help="Name of the checkpoint; the model's own if omitted.")
@storage_option
def import_(
    origin: str,
    output: Path,
    format_name: str | None,
    pair: str | None,
    revision: str | None,
    name: str | None,
    storage: "StorageType | None",
) -> None:
    r"""Convert ORIGIN, a model of another framework, to a checkpoint folder.

    ORIGIN is a folder, a file, or the name of a model of the Hugging Face hub, OWNER/NAME. The folder is
    verified, and written completely or not at all.

    \b
    Examples:
      dragoman import Helsinki-NLP/opus-mt-en-fr -o checkpoints/en-fr
      dragoman import ~/models/nllb-200-distilled-600M -o checkpoints/nllb --pair en-fr
      dragoman import translate-en_fr-1_9.argosmodel -o checkpoints/en-fr
    """
    from model.checkpoint.importing.importer import import_model

    require_replaceable(output, [Path(origin)])
    with _local(origin, revision) as (path, source):
        import_model(
            path,
            output,
            format_name=format_name,
            pair=_pair(pair),
            name=name,
            storage=storage,
            origin=source,
            verify=_record,
        )
    click.echo(f"Written: {output}")


@contextmanager
def _local(origin: str, revision: str | None) -> Iterator[tuple[Path, dict[str, object]]]:
    """Yields the path of a model, which may have to be downloaded, and what provenance says of the origin."""
    from model.checkpoint.importing.importer import downloaded, is_hub_name

    if Path(origin).exists() or not is_hub_name(origin):
        if revision is not None:
            raise Misuse(f"--revision is for a model of the hub, but {origin} is a path")
        yield Path(origin), {"source": Path(origin).name}
        return
    with downloaded(origin, revision) as (folder, commit):
        yield folder, {"source": origin, "revision": commit}


def _record(checkpoint: "Checkpoint") -> None:
    """Records self-test sentences of the first directions whose source language has some."""
    from model.checkpoint.manifest import record
    from model.checkpoint.self_test import PROVENANCE_KEY, find_self_test, plain_sentences
    from model.decoding.factory import engine_factory

    pairs = [pair for pair in checkpoint.card.pairs if plain_sentences(pair[0])][:_MOST_DIRECTIONS]
    engine = engine_factory(checkpoint, device="cpu").make(max_kv_slots=_KV_SLOTS)
    found = find_self_test(pairs, engine.decode, checkpoint.tokenizer)
    engine.close()
    if found:
        record(checkpoint.folder, PROVENANCE_KEY, [sentence.to_dict() for sentence in found])


def _pair(text: str | None) -> Pair | None:
    if text is None:
        return None
    # In mixed case, capitals tell a region (pt-BR) from a second language.
    parts = (text.lower() if text.isupper() and text.count("-") == 1 else text).split("-")
    splits = (("-".join(parts[:place]), "-".join(parts[place:])) for place in range(1, len(parts)))
    pair = next((each for each in splits if all(map(_has_form_of_code, each))), None)
    if pair is None:
        raise Misuse(f"--pair must be two language codes such as en-fr, but is {text}")
    return pair


def _has_form_of_code(text: str) -> bool:
    """Returns whether a text is a code such as `en`, `pt-BR` or NLLB's `eng_Latn`."""
    return is_language_code(text.replace("_", "-"))


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
