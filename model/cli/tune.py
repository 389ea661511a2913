"""`dragoman tune`: chooses a checkpoint's length penalty and beam size on validation text."""

import dataclasses
from collections.abc import Iterator, Sequence
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from model.cli.main import Misuse
from model.cli.options import (
    Languages,
    Setup,
    checkpoint_argument,
    device_option,
    language_options,
    named_languages,
    precision_option,
    progress_bar,
)

if TYPE_CHECKING:
    from model.checkpoint.card import ModelCard
    from model.evaluation import HeldOut, Metric
    from model.evaluation.tuning import Trial

LENGTH_PENALTIES = (0.4, 0.7, 1.0, 1.3, 1.6, 2.0)
_SAMPLE_LINES = 200


@click.command()
@checkpoint_argument
@click.option("--source-file", metavar="F", help="Validation sentences, one a line; .gz or plain.")
@click.option("--reference-file", metavar="R", help="Their references; without it, F has two columns.")
@click.option(
    "--corpus",
    "corpora",
    type=(str, str),
    metavar="PAIR FILE",
    multiple=True,
    help="Instead of these: the languages of the columns, such as en-fr, in either order (told apart by "
    "language), and a tab-separated file; each direction that the checkpoint translates has the same weight. "
    "May be repeated.",
)
@click.option(
    "--length-penalty",
    "penalties",
    type=click.FloatRange(min=0, max=10),
    multiple=True,
    default=LENGTH_PENALTIES,
    show_default=True,
    help="Length penalty to try; may be repeated.",
)
@click.option(
    "--beam-size",
    "beam_sizes",
    type=click.IntRange(min=1),
    multiple=True,
    help="Beam size to try; may be repeated. By default the checkpoint's own.",
)
@click.option(
    "--metric",
    type=click.Choice(["bleu", "chrf"]),
    default="bleu",
    show_default=True,
    help="Metric that decides, by its mean over the directions.",
)
@click.option("--limit", type=click.IntRange(min=1), help="Read only the first so many lines of each file.")
@click.option("--dry-run", is_flag=True, help="Show the result without changing the checkpoint.")
@device_option
@precision_option
@language_options
def tune(
    checkpoint: Path,
    source_file: str | None,
    reference_file: str | None,
    corpora: tuple[tuple[str, str], ...],
    penalties: tuple[float, ...],
    beam_sizes: tuple[int, ...],
    metric: "Metric",
    limit: int | None,
    dry_run: bool,
    device: str,
    precision: str,
    languages: Languages,
) -> None:
    r"""Choose the default search of CHECKPOINT by translating validation text.

    The checksum of the checkpoint changes. Requests that name another search still get that. Use text that is
    neither trained on nor reported.

    \b
    Examples:
      dragoman tune runs/mine/checkpoints/best --source-file valid.en --reference-file valid.fr -s en -t fr
      dragoman tune runs/mine/checkpoints/best --corpus en-fr valid.tsv.gz --beam-size 4 --beam-size 6
    """
    from model.evaluation.tuning import best_trial, keep_best_search, searches, try_searches

    if (source_file is None) == (not corpora):
        raise Misuse("either --source-file or --corpus must be given")
    if corpora:
        _refuse_beside_corpus(languages, reference_file)
    translator = Setup(checkpoint, device, precision).load()
    card = translator.card
    if source_file is not None:
        texts = [_text(source_file, reference_file, limit, card, languages)]
    else:
        texts = _texts(corpora, limit, card)
    candidates = searches(card.decoding, beam_sizes, penalties)
    total = len(candidates) * sum(len(text.sources) for text in texts)
    with progress_bar("sentences", total=total) as bar:
        trials = list(try_searches(translator, texts, candidates, bar.update))
    chosen = best_trial(trials, metric)
    click.echo("\n".join(_table(trials, chosen)))
    if not dry_run:
        files = [source_file] if source_file else [file for _, file in corpora]
        keep_best_search(checkpoint, card, trials, metric, files)
        click.echo(f"Written: {checkpoint}")


def _refuse_beside_corpus(languages: Languages, reference_file: str | None) -> None:
    values = (languages.source, languages.target, reference_file)
    needless = list(compress(("--source", "--target", "--reference-file"), values))
    if needless:
        raise Misuse(f"--corpus names languages and has both columns: leave out {' and '.join(needless)}")


def _text(
    source_file: str, reference_file: str | None, limit: int | None, card: "ModelCard", languages: Languages
) -> "HeldOut":
    from model.training.config_sections import CorpusConfig
    from model.training.data.corpus import held_out_texts

    # These codes only name the columns; the languages are detected afterwards.
    columns = CorpusConfig(
        path=source_file, target_path=reference_file, source_language="source", target_language="target"
    )
    (text,) = held_out_texts([columns], limit or 0)
    source, target = languages.resolve(card, "\n".join(text.sources[:_SAMPLE_LINES]))
    return dataclasses.replace(text, source_language=source, target_language=target)


def _texts(corpora: Sequence[tuple[str, str]], limit: int | None, card: "ModelCard") -> "list[HeldOut]":
    """Reads the directions of tab-separated files that the checkpoint translates."""
    from model.text.detection import are_exchanged
    from model.training.config_sections import CorpusConfig
    from model.training.data.corpus import held_out_texts, read_pairs

    columns = []
    for pair, file in corpora:
        source, target = named_languages(card, pair)
        corpus = CorpusConfig(path=file, source_language=source, target_language=target, bidirectional=True)
        if are_exchanged(read_pairs(corpus), (source, target)):
            corpus = dataclasses.replace(corpus, source_language=target, target_language=source)
        columns.append(corpus)
    return [text for text in held_out_texts(columns, limit or 0) if text.direction in card.pairs]


def _table(trials: "Sequence[Trial]", chosen: "Trial") -> Iterator[str]:
    """Yields a line for each trial: search, mean scores, and scores by direction if there are several."""
    directions = list(trials[0].scores)
    names = ["-".join(pair) for pair in directions] if len(directions) > 1 else []
    yield "\t".join(["beam", "length penalty", "BLEU", "chrF", *names])
    for trial in trials:
        means = [f"{trial.score('bleu'):.2f}", f"{trial.score('chrf'):.2f}"]
        each = [f"{trial.scores[pair].bleu:.1f} {trial.scores[pair].chrf:.1f}" for pair in directions]
        mark = ["← chosen"] if trial is chosen else []
        search = [str(trial.options.beam_size), f"{trial.options.length_penalty:g}"]
        yield "\t".join([*search, *means, *(each if names else []), *mark])
    yield f"signature\t{trials[0].scores[directions[0]].bleu_signature}"
