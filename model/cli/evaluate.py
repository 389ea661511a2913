"""`dragoman evaluate`: BLEU and chrF on held-out text, how sure they are, and whether they beat another's."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from model.cli.evaluation.comparing import Comparing, comparing_options
from model.cli.evaluation.judge import Judge
from model.cli.evaluation.report import Evaluation
from model.cli.evaluation.systems import CheckpointSystem, System, TranslationsFile
from model.cli.evaluation.text import EvaluationText, TextOptions, text_options
from model.cli.main import Misuse
from model.cli.options import Languages, Setup, decoding_options, language_options, setup_options
from model.cli.text_files import is_file_of, written

if TYPE_CHECKING:
    from model.checkpoint.card import Pair

_UNKNOWN = "und"
"""ISO 639's code of a language that nobody has named."""


@click.command()
@text_options
@click.option("--both", is_flag=True, help="The other direction, --target to --source, as well.")
@comparing_options
@click.option(
    "--sentence-bleu",
    type=click.IntRange(min=1),
    metavar="K",
    help="Show each line with its own BLEU of up to K words, 0 to 1.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the translations here, packed if the name ends in .gz; another file than what is read.",
)
@click.option(
    "--record", metavar="NAME", help="Add the scores to the checkpoint's provenance under this name."
)
@click.option("--json", "as_json", is_flag=True, help="Report as JSON; with --both a list.")
@language_options
@setup_options
@decoding_options
def evaluate(
    text: TextOptions,
    both: bool,
    comparing: Comparing,
    sentence_bleu: int | None,
    output: Path | None,
    record: str | None,
    as_json: bool,
    languages: Languages,
    setup: Setup,
    decoding: Mapping[str, object],
) -> None:
    r"""Translate held-out sentences and score them by sacreBLEU.

    \b
    Examples:
      dragoman evaluate --corpus en-fr.tsv.gz --source en --target fr --both
      dragoman evaluate --source-file test.en --reference-file test.fr -s en -t fr
      dragoman evaluate --corpus en-fr.tsv -s en -t fr --against runs/old/checkpoints/best
      dragoman evaluate --reference-file test.fr --translations-file theirs.fr -t fr --confidence
    """
    comparing.check(both=both, output=output, record=record)
    if output is not None and any(is_file_of(file, output) for file in (*text.files, *comparing.files)):
        raise Misuse(f"--output must be another file than what is read, but is {output}")
    read = text.read(languages.source, languages.target, needs_sources=comparing.needs_sources)
    system, baseline = _systems(comparing, setup, decoding, text.limit)
    pair = _pair([system, baseline], languages, read)
    judge = Judge(
        system,
        baseline,
        confidence=comparing.confidence,
        resamples=comparing.resamples,
        sentence_bleu=sentence_bleu,
    )
    found = [judge.evaluate(read, pair)]
    if both:
        found.append(judge.evaluate(read.reversed(), (pair[1], pair[0])))
    _show(found, as_json=as_json, as_list=both)  # first: a disk may refuse the rest
    if output is not None:
        with written(str(output)) as file:
            file.writelines(f"{line}\n".encode() for line in found[0].translations)
    if record is not None:
        for evaluation in found:
            setup.record(f"{record} {evaluation.pair}", evaluation.to_record())


def _systems(
    comparing: Comparing, setup: Setup, decoding: Mapping[str, object], limit: int | None
) -> tuple[System, System | None]:
    """What is judged, and what it is compared with."""
    baseline: System | None = None
    if comparing.against is not None:
        baseline = _loaded(dataclasses.replace(setup, checkpoint=comparing.against), decoding)
    elif comparing.against_file is not None:
        baseline = TranslationsFile(comparing.against_file, limit)
    if comparing.translations_file is not None:
        return TranslationsFile(comparing.translations_file, limit), baseline
    return _loaded(setup, decoding), baseline


def _loaded(setup: Setup, decoding: Mapping[str, object]) -> CheckpointSystem:
    return CheckpointSystem(str(setup.checkpoint), setup.load(), decoding)


def _pair(systems: Sequence[System | None], languages: Languages, text: EvaluationText) -> "Pair":
    """The direction, by the first checkpoint; where all are files, as the options have it."""
    for system in systems:
        if isinstance(system, CheckpointSystem):
            return languages.resolve(system.translator.card, text.sample)
    if languages.target is None:
        raise click.UsageError("--target is needed: it decides how words are counted")
    return languages.source or _UNKNOWN, languages.target


def _show(evaluations: Sequence[Evaluation], *, as_json: bool, as_list: bool) -> None:
    if as_json:
        values = [evaluation.to_dict() for evaluation in evaluations]
        click.echo(json.dumps(values if as_list else values[0], indent=2))
    else:
        click.echo("\n\n".join(map(str, evaluations)))
