"""The text that is translated, and its references: from aligned files, or from columns of one."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Self

import click

from model.cli.evaluation.columns import REFERENCE_COLUMNS, ReferenceColumns
from model.cli.options import Command, are_exchanged, grouped
from model.errors import CorpusError

if TYPE_CHECKING:
    from model.evaluation.scores import References

_SAMPLE_LINES = 200
_SIDES = ("source", "reference")
"""What sides are called where nobody has said which languages they are in."""


@dataclass(frozen=True)
class EvaluationText:
    """Sentences and what they should become.

    Attributes:
        sources: To translate.
        references: Columns: the first reference of each sentence, then the second, …; None where one
            has fewer.
    """

    sources: Sequence[str]
    references: "References"

    @property
    def sample(self) -> str:
        """Some of the sources, to tell their language by."""
        return "\n".join(self.sources[:_SAMPLE_LINES])

    def reversed(self) -> Self:
        """The other direction: first references are translated, sources are what they should become."""
        return type(self)([text or "" for text in self.references[0]], [self.sources])


@dataclass(frozen=True)
class TextOptions:
    """What the options say."""

    source_file: str | None
    corpus: str | None
    reference_files: tuple[str, ...]
    source_column: int | None
    reference_columns: ReferenceColumns | None
    limit: int | None

    @property
    def files(self) -> Sequence[Path]:
        """What is read."""
        return [Path(file) for file in (self.corpus, self.source_file, *self.reference_files) if file]

    def read(self, source: str | None, target: str | None, *, needs_sources: bool) -> EvaluationText:
        """The text, in the direction that was asked for.

        Args:
            source: Language code, as far as it is known.
            target: The same.
            needs_sources: Whether there is something to translate.

        Raises:
            UsageError: If the options do not name a text.
            CorpusError: If a file cannot be read, or files are not equally long.
        """
        if self.corpus is not None:
            return self._read_corpus(self.corpus, source, target)
        if self.source_file is None:
            return self._read_references(needs_sources=needs_sources)
        if self.reference_files:
            return self._read_aligned(self.source_file, self.reference_files)
        return self._read_columns(self.source_file, self.source_column or 1, _SIDES)

    def _read_corpus(self, path: str, source: str | None, target: str | None) -> EvaluationText:
        if self.source_file or self.reference_files:
            raise click.UsageError("--corpus holds both sides: leave out --source-file and --reference-file")
        if source in (None, "auto") or target is None:
            raise click.UsageError("--corpus needs --source and --target")
        if self.source_column is not None:
            return self._read_columns(path, self.source_column, (source, target))
        text = self._read_columns(path, 1, (source, target))
        turned = text.reversed()
        if self.reference_columns is None and are_exchanged((text.sample, turned.sample), (source, target)):
            return turned
        return text

    def _read_references(self, *, needs_sources: bool) -> EvaluationText:
        """References alone, for translations that are there already."""
        if needs_sources or not self.reference_files:
            raise click.UsageError("give --corpus, or --source-file")
        first, *others = self.reference_files
        text = self._read_aligned(first, others) if others else None
        lines = text.sources if text else _lines(first, self.limit)
        return EvaluationText([""] * len(lines), [lines, *(text.references if text else ())])

    def _read_aligned(self, source_file: str, reference_files: Sequence[str]) -> EvaluationText:
        columns = []
        for file in reference_files:
            pairs = self._pairs(source_file, target_path=file)
            columns.append([reference for _, reference in pairs])
        return EvaluationText([source for source, _ in pairs], columns)

    def _read_columns(self, path: str, source_column: int, codes: tuple[str, str]) -> EvaluationText:
        wanted = self.reference_columns or ReferenceColumns.other_than(source_column)
        if wanted.single is None:
            return _table(path, source_column, wanted, self.limit)
        pairs = self._pairs(path, codes=codes, source_column=source_column, target_column=wanted.single)
        return EvaluationText([source for source, _ in pairs], [[reference for _, reference in pairs]])

    def _pairs(
        self,
        path: str,
        *,
        codes: tuple[str, str] = _SIDES,
        target_path: str | None = None,
        source_column: int = 1,
        target_column: int = 2,
    ) -> list[tuple[str, str]]:
        from model.training.config.data import CorpusConfig
        from model.training.data.corpus import read_pairs

        corpus = CorpusConfig(
            path=path,
            source_language=codes[0],
            target_language=codes[1],
            target_path=target_path,
            source_column=source_column - 1,
            target_column=target_column - 1,
        )
        return [(pair.source, pair.target) for pair in islice(read_pairs(corpus), self.limit)]


def text_options(command: Command) -> Command:
    """`--corpus`, `--source-file` and so on, as `text`."""
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
            help="References, a line each; without it, F has columns. May be given several times.",
        ),
        "source_column": click.option(
            "--source-column", type=column, help="Column of F, tab-separated.  [default: 1]"
        ),
        "reference_columns": click.option(
            "--reference-column",
            "reference_columns",
            type=REFERENCE_COLUMNS,
            help="Columns of the references: 2, or 2,3, or 2- for all from there on.  [default: 2]",
        ),
        "limit": click.option("--limit", type=column, help="Only the first so many lines."),
    }
    return grouped(command, options, "text", TextOptions)


def _table(path: str, source_column: int, wanted: ReferenceColumns, limit: int | None) -> EvaluationText:
    """Several references a sentence; some may have more than others."""
    needed = max(source_column, wanted.first)
    blank = [""] * needed
    rows = [line.split("\t") if line.strip() else blank for line in _lines(path, limit)]
    for number, row in enumerate(rows, start=1):
        if len(row) < needed:
            raise CorpusError(f"{path}:{number}: {len(row)} tab-separated columns, at least {needed} needed")
    columns = wanted.among(max(len(row) for row in rows), leaving_out=source_column)
    if not columns:
        raise click.UsageError(f"--reference-column names no column of {path} but that of the sources")
    references = [[row[column - 1] if column <= len(row) else None for row in rows] for column in columns]
    return EvaluationText([row[source_column - 1] for row in rows], references)


def _lines(path: str, limit: int | None) -> list[str]:
    from model.training.data.corpus import read_lines

    lines: Iterator[str] = read_lines(Path(path))
    found = list(islice(lines, limit))
    if not found:
        raise CorpusError(f"{path}: empty, no sentence to read")
    return found
