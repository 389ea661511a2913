"""What of a line is translated, and what of it is written."""

from dataclasses import dataclass

from model.errors import InputError


@dataclass(frozen=True)
class LineForm:
    """Plain lines, a column, or pairs.

    Attributes:
        column: The tab-separated column to translate, counted from 1; None takes the whole line.
        pairs: Write source and translation side by side.
    """

    column: int | None = None
    pairs: bool = False

    def source(self, line: str, name: str) -> str:
        """What to translate of a line, with the line's end.

        Args:
            line: With its end.
            name: What to call it in an error.

        Raises:
            InputError: If it has too few columns.
        """
        end = line_end(line)
        if self.column is None or not line.strip():
            return line if self.column is None else end
        columns = line.rstrip("\r\n").split("\t")
        if len(columns) < self.column:
            raise InputError(f"{name} has {len(columns)} tab-separated columns, but needs {self.column}")
        return columns[self.column - 1] + end

    def rendered(self, source: str, translation: str) -> str:
        """The line to write; a tab inside a sentence would begin another column."""
        if not self.pairs:
            return translation
        return f"{_one_column(source)}\t{_one_column(translation)}\n"


def line_end(line: str) -> str:
    r"""`\n`, `\r\n`, or nothing after the last line."""
    return line[len(line.rstrip("\r\n")) :]


def _one_column(text: str) -> str:
    return text.strip().replace("\t", " ")
