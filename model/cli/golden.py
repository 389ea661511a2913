"""`dragoman golden`: records self-test sentences, which `dragoman serve` translates at its start."""

import re
from collections import defaultdict
from collections.abc import Sequence
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING

import click

from model.cli.main import Failure, Misuse
from model.cli.options import checkpoint_argument

if TYPE_CHECKING:
    from model.checkpoint.card import ModelCard, Pair

_CODE = re.compile(r"[A-Za-z]{2,3}([-_][A-Za-z0-9]+)*")


@click.command()
@checkpoint_argument
@click.option(
    "--text",
    "texts",
    type=(str, str),
    metavar="PAIR TEXT",
    multiple=True,
    help="Languages, such as en-fr, and a short text to try; may be repeated. Plain sentences by default.",
)
@click.option(
    "--references",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Texts to try, with human translations: tab-separated, one language a column, the language codes in "
    "the first line. A text may occur in several lines, a cell may be empty. Only translations that equal "
    "one of FILE are recorded.",
)
def golden(checkpoint: Path, texts: tuple[tuple[str, str], ...], references: Path | None) -> None:
    r"""Record self-test sentences in CHECKPOINT.

    These are short texts and translations of which the network is sure. `dragoman serve` lets each engine
    translate the texts before it is ready, and refuses the checkpoint if the translations differ.
    `dragoman train` records such texts if it validates. Only provenance.json changes; the checksum stays.

    \b
    Examples:
      dragoman golden runs/mine/checkpoints/best --text en-fr "Where is the station?"
      dragoman golden runs/mine/checkpoints/best --references sentences.tsv
    """
    from model.checkpoint.folder import load_checkpoint
    from model.checkpoint.manifest import record
    from model.checkpoint.self_test import PROVENANCE_KEY, find_self_test
    from model.decoding.factory import torch_engine

    if texts and references is not None:
        raise Misuse("either --text or --references can be given, not both")
    known = None if references is None else read_references(references)
    loaded = load_checkpoint(checkpoint)
    engine = torch_engine(loaded.network(), never_produced=loaded.tokenizer.target_tag_ids)
    found = find_self_test(
        loaded.card.pairs,
        engine.decode,
        loaded.tokenizer,
        texts=_by_pair(texts, loaded.card),
        references=known,
    )
    if not found:
        wanted = "is not sure of any" if known is None else "is not sure of a right translation of any"
        raise Failure(f"checkpoint {checkpoint} {wanted} of these texts: nothing was recorded")
    record(checkpoint, PROVENANCE_KEY, [sentence.to_dict() for sentence in found])
    for each in found:
        pair = f"{each.source_language}-{each.target_language}"
        click.echo(f"{pair}\t{each.source}\t{each.translation}")


def read_references(file: Path) -> "dict[Pair, dict[str, set[str]]]":
    """Reads the texts of a file of references, and their translations, by direction.

    Raises:
        CorpusError: If the file cannot be read.
        Misuse: If the first line does not name two or more languages, or another line has more columns.
    """
    from model.training.data.corpus import read_lines

    head, *rows = [line.split("\t") for line in read_lines(file)] or [[]]
    if len(head) < 2 or not all(map(_CODE.fullmatch, head)) or len(set(head)) < len(head):
        raise Misuse(f"--references {file}: the first line must be two or more language codes, tab-separated")
    known: dict[Pair, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for number, row in enumerate(rows, start=2):
        if len(row) > len(head):
            raise Misuse(f"--references {file}:{number}: must have at most {len(head)} columns")
        cells = [(code, text) for code, text in zip(head, row, strict=False) if text]
        for (source, text), (target, translation) in permutations(cells, 2):
            known[source, target][text].add(translation)
    return known


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
