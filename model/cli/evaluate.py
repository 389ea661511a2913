"""`dragoman evaluate`: BLEU and chrF on held-out text, with confidence intervals and comparisons."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from model.cli.evaluation_text import SAMPLE_LINES, TextOptions, text_options
from model.cli.main import Misuse
from model.cli.options import (
    Languages,
    Setup,
    decoding_options,
    language_options,
    progress_bar,
    setup_options,
)
from model.cli.output_files import is_file_of, written
from model.errors import CorpusError
from model.evaluation.text import EvaluationText

if TYPE_CHECKING:
    from model.checkpoint.card import Pair
    from model.evaluation.systems import SystemOutput
    from model.translation.translator import Translator

_UNKNOWN = "und"
"""ISO 639's code of an undetermined language."""
_PATH = click.Path(path_type=Path)


@click.command()
@text_options
@click.option("--both", is_flag=True, help="Evaluate the other direction, --target to --source, as well.")
@click.option(
    "--translations-file", type=_PATH, metavar="F", help="Score these translations, without a checkpoint."
)
@click.option(
    "--against", type=_PATH, metavar="CHECKPOINT", help="Compare with this checkpoint on the same text."
)
@click.option("--against-file", type=_PATH, metavar="F", help="Compare with these translations, one a line.")
@click.option(
    "--confidence",
    is_flag=True,
    help="Show 95 % intervals, by bootstrap resampling; implied by --against.",
)
@click.option(
    "--resamples",
    type=click.IntRange(min=40),
    default=1000,
    show_default=True,
    help="How many texts the bootstrap draws; SACREBLEU_SEED seeds it.",
)
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
    help="Write the translations to this file, compressed if its name ends in .gz.",
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
    translations_file: Path | None,
    against: Path | None,
    against_file: Path | None,
    confidence: bool,
    resamples: int,
    sentence_bleu: int | None,
    output: Path | None,
    record: str | None,
    as_json: bool,
    languages: Languages,
    setup: Setup,
    decoding: Mapping[str, object],
) -> None:
    r"""Translate held-out sentences and score the translations with sacreBLEU.

    \b
    Examples:
      dragoman evaluate --corpus en-fr.tsv.gz --source en --target fr --both
      dragoman evaluate --source-file test.en --reference-file test.fr -s en -t fr
      dragoman evaluate --corpus en-fr.tsv -s en -t fr --against runs/old/checkpoints/best
      dragoman evaluate --reference-file test.fr --translations-file theirs.fr -t fr --confidence
    """
    if against is not None and against_file is not None:
        raise click.UsageError("--against and --against-file: compare with one of them")
    if both and (translations_file or against_file or output):
        raise click.UsageError("--both translates two directions, and a file of translations holds one")
    if translations_file and (output or record):
        raise click.UsageError("--translations-file: nothing is translated, leave out --output and --record")
    inputs = [*text.files, *filter(None, (translations_file, against_file))]
    if output is not None and any(is_file_of(file, output) for file in inputs):
        raise Misuse(f"--output must be another file than what is read, but is {output}")
    from model.evaluation import significance
    from model.evaluation.systems import evaluate_output

    if confidence or against or against_file:
        significance.check_seed()
    needs_sources = translations_file is None or against is not None
    read = text.read(languages.source, languages.target, needs_sources=needs_sources)
    system = _System.load(setup, translations_file)
    baseline = None
    if against is not None or against_file is not None:
        other = dataclasses.replace(setup, checkpoint=against or setup.checkpoint)
        baseline = _System.load(other, against_file)
    pair = _pair([system, baseline], languages, read)
    _warn_of_language(read, pair, system)
    evaluations = [
        evaluate_output(
            each,
            direction,
            system.translate(each, direction, decoding, text.limit),
            baseline=baseline and baseline.translate(each, direction, decoding, text.limit),
            resamples=resamples if confidence or baseline else 0,
            sentence_bleu=sentence_bleu,
        )
        for each, direction in ((read, pair), (read.reversed(), (pair[1], pair[0])))[: 1 + both]
    ]
    # The report comes first, because a file may not be writable.
    if as_json:
        values = [evaluation.to_dict() for evaluation in evaluations]
        click.echo(json.dumps(values if both else values[0], indent=2))
    else:
        click.echo("\n\n".join(map(str, evaluations)))
    if output is not None:
        with written(str(output)) as file:
            file.writelines(f"{line}\n".encode() for line in evaluations[0].output.translations)
    if record is not None:
        for evaluation in evaluations:
            setup.record(f"{record} {evaluation.pair}", evaluation.to_record())


class _System(NamedTuple):
    """A checkpoint that translates; without `translator` a file with one translation a line."""

    place: Path
    translator: "Translator | None"

    @classmethod
    def load(cls, setup: Setup, file: Path | None) -> "_System":
        return cls(setup.checkpoint, setup.load()) if file is None else cls(file, None)

    def translate(
        self, text: EvaluationText, pair: "Pair", decoding: Mapping[str, object], limit: int | None
    ) -> "SystemOutput":
        """Returns the translations of a text.

        Raises:
            CorpusError: If the file cannot be read, or has more or fewer lines than the text.
        """
        from model.evaluation.systems import SystemOutput, translate_text

        if self.translator is not None:
            options = self.translator.card.options(decoding) if decoding else None
            with progress_bar("sentences") as bar:
                return translate_text(
                    self.translator,
                    str(self.place),
                    text.sources,
                    pair,
                    options=options,
                    progress=bar.update,
                )
        from model.training.data.corpus import read_lines

        lines = list(islice(read_lines(self.place), limit))
        if len(lines) != len(text.sources):
            raise CorpusError(f"{self.place}: {len(lines)} translations of {len(text.sources)} sentences")
        return SystemOutput(name=self.place.name, place=str(self.place), translations=lines)


def _warn_of_language(text: EvaluationText, pair: "Pair", system: _System) -> None:
    """Warns if the references are clearly in another language than the target."""
    from model.text.detection import LanguageDetector, has_statistics

    if not has_statistics():
        return
    known = system.translator.card.languages if system.translator is not None else pair
    references = text.references[0] if text.references else []
    sample = "\n".join(filter(None, references[:SAMPLE_LINES]))
    found = LanguageDetector(known).detect(sample)[0]
    if found.language != pair[1] and found.confidence > 0.9:
        told = f"warning: the references look like {found.language}, but the target is {pair[1]}"
        click.echo(told, err=True)


def _pair(systems: Sequence[_System | None], languages: Languages, text: EvaluationText) -> "Pair":
    """Returns the direction, by the first checkpoint or, if all systems are files, by the options."""
    for system in systems:
        if system is not None and system.translator is not None:
            return languages.resolve(system.translator.card, "\n".join(text.sources[:SAMPLE_LINES]))
    if languages.target is None:
        raise click.UsageError("--target is needed: it decides how words are counted")
    return languages.source or _UNKNOWN, languages.target
