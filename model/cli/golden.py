"""`dragoman golden`: record golden sentences, which whoever serves the checkpoint compares with first."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from model.cli.main import Failure, Misuse
from model.cli.setup import only_checkpoint

if TYPE_CHECKING:
    from model.card import ModelCard, Pair


@click.command()
@click.argument("checkpoint", type=click.Path(path_type=Path))
@click.option(
    "--text",
    "texts",
    type=(str, str),
    metavar="PAIR TEXT",
    multiple=True,
    help="Languages, such as en-fr, and a short text to choose; may be repeated. Plain sentences by default.",
)
def golden(checkpoint: Path, texts: tuple[tuple[str, str], ...]) -> None:
    r"""Record in CHECKPOINT what it makes of some short texts, if it is sure of them.

    `dragoman serve` lets each engine translate them again before it is ready, and refuses the checkpoint
    if something else comes out. `dragoman train` records them where it validates. Nothing but
    provenance.json is changed, and the checksum stays.

    \b
    Example:
      dragoman golden runs/mine/checkpoints/best --text en-fr "Where is the station?"
    """
    from model.checkpoint import load_checkpoint, record
    from model.engines import torch_engine
    from model.gilding import find_golden
    from model.golden import GOLDEN

    folder = only_checkpoint(checkpoint)
    loaded = load_checkpoint(folder)
    engine = torch_engine(loaded.network(), never_produced=loaded.tokenizer.target_tag_ids)
    found = find_golden(
        loaded.card.pairs, engine.decode, loaded.tokenizer, texts=_by_pair(texts, loaded.card)
    )
    if not found:
        raise Failure(f"checkpoint {folder} is not sure of any of these texts: nothing was recorded")
    record(folder, GOLDEN, [sentence.to_dict() for sentence in found])
    for each in found:
        pair = f"{each.source_language}-{each.target_language}"
        click.echo(f"{pair}\t{each.source}\t{each.translation}")


def _by_pair(texts: Sequence[tuple[str, str]], card: "ModelCard") -> "dict[Pair, list[str]]":
    known = {"-".join(pair): pair for pair in card.pairs}
    chosen: dict[Pair, list[str]] = {}
    for name, text in texts:
        if name not in known:
            raise Misuse(f"--text must name one of {', '.join(known)}, but names {name} instead")
        if not text.strip():
            raise Misuse(f"--text {name} must have a text that is not blank")
        chosen.setdefault(known[name], []).append(text)
    return chosen
