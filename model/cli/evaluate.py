"""`dragoman evaluate`: BLEU and chrF on held-out text, with confidence intervals and comparisons."""

import dataclasses
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

import click

from model.cli.main import Misuse
from model.cli.options import (
    Command,
    Languages,
    Setup,
    decoding_options,
    grouped,
    language_options,
    only_checkpoint,
    progress_bar,
    setup_options,
)
from model.cli.output_files import is_file_of, written
from model.errors import CorpusError
from model.evaluation import EvaluationText

if TYPE_CHECKING:
    from model.checkpoint.card import Pair
    from model.evaluation.systems import SystemOutput
    from model.translation.translator import Translator

_SAMPLE_LINES = 200
"""Lines that show which language a text is in."""
_SIDES = ("source", "reference")
"""Names of columns whose languages are not given."""
_COLUMNS = re.compile(r"[1-9]\d*(,[1-9]\d*)*|[1-9]\d*-")
_UNKNOWN = "und"
"""ISO 639's code of an undetermined language."""
_PATH = click.Path(path_type=Path)


class ReferenceColumns(NamedTuple):
    """Columns of a tab-separated file, counted from 1, and whether all columns after them count too."""

    named: tuple[int, ...]
    is_open: bool = False

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parses `2`, `2,3` or `2-`.

        Raises:
            BadParameter: If it is none of these.
        """
        if not _COLUMNS.fullmatch(text):
            raise click.BadParameter(f"{text!r} is not a column (2), a list (2,3) or an open range (2-)")
        return cls(tuple(map(int, text.rstrip("-").split(","))), text.endswith("-"))

    def among(self, num_columns: int, *, leaving_out: int) -> Sequence[int]:
        """Returns the columns of a file that has `num_columns`, without one of them."""
        following = range(self.named[-1] + 1, num_columns + 1) if self.is_open else ()
        return [column for column in (*self.named, *following) if column != leaving_out]


@dataclass(frozen=True)
class TextOptions:
    """Values of the options."""

    source_file: str | None
    corpus: str | None
    reference_files: tuple[str, ...]
    source_column: int | None
    reference_columns: ReferenceColumns | None
    limit: int | None

    @property
    def files(self) -> Sequence[Path]:
        """The files to read."""
        return [Path(file) for file in (self.corpus, self.source_file, *self.reference_files) if file]

    def read(self, source: str | None, target: str | None, *, needs_sources: bool) -> EvaluationText:
        """Reads the text in the requested direction.

        Args:
            source: Source language code, if known.
            target: Target language code, if known.
            needs_sources: Whether there is something to translate.

        Raises:
            UsageError: If the options do not name a text.
            CorpusError: If a file cannot be read, or the files are not equally long.
        """
        if self.corpus is not None:
            return self._read_corpus(self.corpus, source, target)
        if self.source_file is not None:
            if self.reference_files:
                return self._read_aligned(self.source_file, self.reference_files)
            return self._read_columns(self.source_file, self.source_column or 1, _SIDES)
        if needs_sources or not self.reference_files:
            raise click.UsageError("give --corpus, or --source-file")
        first, *others = self.reference_files
        text = self._read_aligned(first, others) if others else EvaluationText(_lines(first, self.limit), [])
        return EvaluationText([""] * len(text.sources), [text.sources, *text.references])

    def _read_corpus(self, path: str, source: str | None, target: str | None) -> EvaluationText:
        if self.source_file or self.reference_files:
            raise click.UsageError("--corpus holds both sides: leave out --source-file and --reference-file")
        if source in (None, "auto") or target is None:
            raise click.UsageError("--corpus needs --source and --target")
        text = self._read_columns(path, self.source_column or 1, (source, target))
        if self.source_column is not None or self.reference_columns is not None:
            return text
        from model.text.detection import are_exchanged

        exchanged = text.reversed()
        pairs = zip(text.sources, exchanged.sources, strict=True)
        return exchanged if are_exchanged(pairs, (source, target)) else text

    def _read_aligned(self, source_file: str, reference_files: Sequence[str]) -> EvaluationText:
        texts = [self._read_pairs(source_file, _SIDES, target_path=file) for file in reference_files]
        return EvaluationText(texts[0].sources, [text.references[0] for text in texts])

    def _read_columns(self, path: str, source_column: int, codes: tuple[str, str]) -> EvaluationText:
        wanted = self.reference_columns or ReferenceColumns((1 if source_column == 2 else 2,))
        if len(wanted.named) > 1 or wanted.is_open:
            return _read_table(path, source_column, wanted, self.limit)
        return self._read_pairs(path, codes, source_column=source_column, target_column=wanted.named[0])

    def _read_pairs(
        self,
        path: str,
        codes: tuple[str, str],
        *,
        target_path: str | None = None,
        source_column: int = 1,
        target_column: int = 2,
    ) -> EvaluationText:
        from model.training.config_sections import CorpusConfig
        from model.training.data.corpus import read_pairs

        corpus = CorpusConfig(
            path=path,
            source_language=codes[0],
            target_language=codes[1],
            target_path=target_path,
            source_column=source_column,
            target_column=target_column,
        )
        pairs = list(islice(read_pairs(corpus), self.limit))
        return EvaluationText([pair.source for pair in pairs], [[pair.target for pair in pairs]])


def _text_options(command: Command) -> Command:
    """Gives a command `--corpus`, `--source-file` and so on; it gets their values as `text`."""
    column = click.IntRange(min=1)
    options = {
        "source_file": click.option(
            "--source-file", metavar="F", help="Sentences to translate, one a line; .gz or plain."
        ),
        "corpus": click.option(
            "--corpus",
            metavar="F",
            help="Tab-separated columns, --source and --target, in either order: told apart by language.",
        ),
        "reference_files": click.option(
            "--reference-file",
            "reference_files",
            metavar="R",
            multiple=True,
            help="References, one a line; without it, F has columns. May be repeated.",
        ),
        "source_column": click.option(
            "--source-column", type=column, help="Column of F, tab-separated.  [default: 1]"
        ),
        "reference_columns": click.option(
            "--reference-column",
            "reference_columns",
            metavar="COLUMNS",
            type=ReferenceColumns.parse,
            help="Columns of the references: 2, or 2,3, or 2- for all from the second on.  [default: 2]",
        ),
        "limit": click.option("--limit", type=column, help="Read only the first so many lines."),
    }
    return grouped(command, options, "text", TextOptions)


@click.command()
@_text_options
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

    from model.checkpoint.manifest import record_evaluation
    from model.evaluation.scores import check_seed
    from model.evaluation.systems import evaluate_output

    if confidence or against or against_file:
        check_seed()
    needs_sources = translations_file is None or against is not None
    read = text.read(languages.source, languages.target, needs_sources=needs_sources)
    system = _System.load(setup, translations_file)
    baseline = None
    if against is not None or against_file is not None:
        other = dataclasses.replace(setup, checkpoint=against or setup.checkpoint)
        baseline = _System.load(other, against_file)
    pair = _pair([system, baseline], languages, read)
    _warn_of_language(read, pair, system)
    directions = [(read, pair)]
    if both:
        directions.append((read.reversed(), (pair[1], pair[0])))
    evaluations = [
        evaluate_output(
            each,
            direction,
            system.translate(each, direction, decoding, text.limit),
            baseline=baseline and baseline.translate(each, direction, decoding, text.limit),
            resamples=resamples if confidence or baseline else 0,
            sentence_bleu=sentence_bleu,
        )
        for each, direction in directions
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
            name = f"{record} {evaluation.pair}"
            record_evaluation(only_checkpoint(setup.checkpoint), name, evaluation.to_record())


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
    sample = "\n".join(filter(None, references[:_SAMPLE_LINES]))
    found = LanguageDetector(known).detect(sample)[0]
    if found.language != pair[1] and found.confidence > 0.9:
        told = f"warning: the references look like {found.language}, but the target is {pair[1]}"
        click.echo(told, err=True)


def _pair(systems: Sequence[_System | None], languages: Languages, text: EvaluationText) -> "Pair":
    """Returns the direction, by the first checkpoint or, if all systems are files, by the options."""
    for system in systems:
        if system is not None and system.translator is not None:
            return languages.resolve(system.translator.card, "\n".join(text.sources[:_SAMPLE_LINES]))
    if languages.target is None:
        raise click.UsageError("--target is needed: it decides how words are counted")
    return languages.source or _UNKNOWN, languages.target


def _read_table(path: str, source_column: int, wanted: ReferenceColumns, limit: int | None) -> EvaluationText:
    """Reads several references a sentence; some sentences may have more than others."""
    needed = max(source_column, wanted.named[0])
    rows = [line.split("\t") if line.strip() else [""] * needed for line in _lines(path, limit)]
    for number, row in enumerate(rows, start=1):
        if len(row) < needed:
            raise CorpusError(f"{path}:{number}: {len(row)} tab-separated columns, at least {needed} needed")
    columns = wanted.among(max(map(len, rows)), leaving_out=source_column)
    if not columns:
        raise click.UsageError(f"--reference-column names only the column of the sources of {path}")
    references = [[row[column - 1] if column <= len(row) else None for row in rows] for column in columns]
    return EvaluationText([row[source_column - 1] for row in rows], references)


def _lines(path: str, limit: int | None) -> list[str]:
    from model.training.data.corpus import read_lines

    lines = list(islice(read_lines(Path(path)), limit))
    if not lines:
        raise CorpusError(f"{path}: empty, no sentence to read")
    return lines
