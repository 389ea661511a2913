"""`dragoman shortlist`: learns the likely translations of each source token from parallel text."""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click

from model.cli.main import Failure, Misuse
from model.cli.options import checkpoint_argument, named_languages, progress_bar

if TYPE_CHECKING:
    from model.checkpoint.card import ModelCard, Pair
    from model.checkpoint.folder import Checkpoint
    from model.training.data.lexicon import ParallelIds

Corpus = tuple[str, str]
"""Languages `source-target`, and a file with these columns."""

_PAIRS_AT_ONCE = 10_000


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
    from model.training.config.sections import CorpusConfig
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
