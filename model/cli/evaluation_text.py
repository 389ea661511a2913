"""Options of `dragoman evaluate` that name a text and its references: aligned files, or columns of one."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import click

from model.cli.options import Command, grouped
from model.errors import CorpusError
from model.evaluation.text import EvaluationText

SAMPLE_LINES = 200
"""Lines that show which language a text is in."""
_SIDES = ("source", "reference")
"""Names of columns whose languages are not given."""
_COLUMNS = re.compile(r"[1-9]\d*(,[1-9]\d*)*|[1-9]\d*-")


class ReferenceColumns(NamedTuple):
    """Columns of a tab-separated file, counted from 1, and whether all columns after them count too."""

    named: tuple[int, ...]
    is_open: bool = False

    @classmethod
    def parse(
        cls, context: click.Context | None, parameter: click.Parameter | None, text: str | None
    ) -> "ReferenceColumns | None":
        """Parses `2`, `2,3` or `2-`, as a callback of an option."""
        if text is None:
            return None
        if not _COLUMNS.fullmatch(text):
            message = f"{text!r} is not a column (2), a list (2,3) or an open range (2-)"
            raise click.BadParameter(message, context, parameter)
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

        turned = text.reversed()
        samples = ("\n".join(text.sources[:SAMPLE_LINES]), "\n".join(turned.sources[:SAMPLE_LINES]))
        return turned if are_exchanged(samples, (source, target)) else text

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
        from model.training.config.data import CorpusConfig
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


def text_options(command: Command) -> Command:
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
            callback=ReferenceColumns.parse,
            help="Columns of the references: 2, or 2,3, or 2- for all from the second on.  [default: 2]",
        ),
        "limit": click.option("--limit", type=column, help="Read only the first so many lines."),
    }
    return grouped(command, options, "text", TextOptions)


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
