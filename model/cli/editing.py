"""`dragoman average`, `grow`, `golden`, `shortlist`: checkpoints made from others, or added to."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import islice, permutations
from pathlib import Path
from typing import TYPE_CHECKING

import click

from model.cli.main import Failure, Misuse
from model.cli.options import (
    checkpoint_argument,
    named_languages,
    only_checkpoint,
    output_folder,
    progress_bar,
    require_replaceable,
    storage_option,
)

if TYPE_CHECKING:
    from model.checkpoint.card import ModelCard, Pair
    from model.checkpoint.folder import Checkpoint
    from model.checkpoint.weights import StorageType
    from model.training.data.lexicon import ParallelIds

_CODE = re.compile(r"[A-Za-z]{2,3}([-_][A-Za-z0-9]+)*")

Corpus = tuple[str, str]
"""Languages `source-target`, and a file with these columns."""

_PAIRS_AT_ONCE = 10_000


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


@click.command()
@checkpoint_argument
@click.option(
    "--corpus",
    "corpora",
    type=(str, str),
    metavar="PAIR FILE",
    multiple=True,
    required=True,
    help="Languages of the columns, such as en-fr, and a tab-separated file, .gz or plain; may be repeated.",
)
@click.option(
    "--per-token",
    type=click.IntRange(min=1),
    default=50,
    show_default=True,
    help="Translations of each source token, in addition to those for all.",
)
@click.option(
    "--always",
    type=click.IntRange(min=0),
    default=1000,
    show_default=True,
    help="Frequent target tokens that every translation may use.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=1_000_000,
    show_default=True,
    help="Read only the first so many lines of each corpus.",
)
def shortlist(checkpoint: Path, corpora: tuple[Corpus, ...], per_token: int, always: int, limit: int) -> None:
    r"""Learn a shortlist of target tokens and add it to CHECKPOINT.

    CHECKPOINT is a checkpoint folder, or a folder that holds one. With `--shortlist` or
    DRAGOMAN_SHORTLIST=on, a sentence is then translated with a few thousand tokens instead of all, which is
    faster. A corpus serves both directions of its languages. The checksum of the checkpoint changes; without
    those options its translations do not.

    \b
    Example:
      dragoman shortlist runs/mine/checkpoints/best --corpus en-fr pairs.tsv.gz
    """
    from model.checkpoint.editing import add_shortlist
    from model.checkpoint.folder import load_checkpoint
    from model.training.data.lexicon import ITERATIONS, Lexicon, ParallelIds, make_shortlist

    loaded = load_checkpoint(checkpoint)
    named = [(named_languages(loaded.card, languages), file) for languages, file in corpora]
    _require_all_pairs(loaded.card, [languages for languages, _ in named])
    with progress_bar("lines read") as bar:
        parts = [part for part in _read_all(loaded, named, limit, bar.update) if len(part)]
    if not parts:
        raise Failure("no pair of the corpora fits the network")
    pairs = ParallelIds.joined(parts)
    with progress_bar("pairs", total=(ITERATIONS + 1) * len(pairs)) as bar:
        lexicon = Lexicon.learn(pairs, loaded.config.target_vocab_size, bar.update)
    made = make_shortlist(pairs, lexicon, loaded.tokenizer, per_token=per_token, always=always)
    made.check(loaded.config)
    corpus_names = [f"{languages} {Path(file).name}" for languages, file in corpora]
    add_shortlist(
        checkpoint,
        made,
        {"corpora": corpus_names, "pairs": len(pairs), "per_token": per_token, "always": always},
    )
    average = len(made.candidates) / (len(made.offsets) - 1)
    click.echo(
        f"Written: {checkpoint} ({len(pairs)} pairs; {len(made.always)} tokens for all sentences, "
        f"and {average:.1f} for each source token on average)"
    )


def _require_all_pairs(card: "ModelCard", given: "Sequence[Pair]") -> None:
    """Refuses corpora that lack a direction, for which only the frequent tokens would remain."""
    for pair in card.pairs:
        if pair not in given and pair[::-1] not in given:
            raise Misuse(f"--corpus must be given for {'-'.join(pair)} too")


def _read_all(
    checkpoint: "Checkpoint",
    corpora: "Sequence[tuple[Pair, str]]",
    limit: int,
    progress: Callable[[int], object],
) -> "Iterator[ParallelIds]":
    """Yields the token ids of every direction that the checkpoint translates, some lines at a time."""
    from model.training.config_sections import CorpusConfig
    from model.training.data.corpus import read_pairs

    for forward, file in corpora:
        config = CorpusConfig(path=file, source_language=forward[0], target_language=forward[1])
        lines = islice(read_pairs(config), limit)
        while chunk := list(islice(lines, _PAIRS_AT_ONCE)):
            columns = [line.source for line in chunk], [line.target for line in chunk]
            for direction, texts in ((forward, columns), (forward[::-1], columns[::-1])):
                if checkpoint.card.translates(*direction):
                    yield _encoded(checkpoint, direction, *texts)
            progress(len(chunk))


def _encoded(
    checkpoint: "Checkpoint", direction: "Pair", sources: Sequence[str], targets: Sequence[str]
) -> "ParallelIds":
    """Returns the token ids of the pairs that are not too long for the network."""
    from model.training.data.lexicon import ParallelIds

    tokenizer, most = checkpoint.tokenizer, checkpoint.config.max_positions
    pairs = zip(
        tokenizer.encode_batch(sources, source_language=direction[0], target_language=direction[1]),
        tokenizer.encode_target_batch(targets),
        strict=True,
    )
    return ParallelIds.of([(s, t) for s, t in pairs if max(len(s), len(t)) <= most])
