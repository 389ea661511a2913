"""`--reference-column`: one column, several, or all from one on."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import click

if TYPE_CHECKING:
    ParameterType = click.ParamType[Any]
else:
    ParameterType = click.ParamType

_FORM = re.compile(r"[1-9]\d*(,[1-9]\d*)*|[1-9]\d*-")


@dataclass(frozen=True)
class ReferenceColumns:
    """Columns of a tab-separated file, counted from 1.

    Attributes:
        named: These.
        is_open: Whether all after the last of them as well.
    """

    named: tuple[int, ...]
    is_open: bool = False

    @classmethod
    def other_than(cls, source_column: int) -> Self:
        """What is meant where nothing is said: the second column, or the first beside it."""
        return cls((1 if source_column == 2 else 2,))

    @property
    def first(self) -> int:
        """Every line must have this one."""
        return self.named[0]

    @property
    def single(self) -> int | None:
        """The only one, if it is."""
        return self.named[0] if len(self.named) == 1 and not self.is_open else None

    def among(self, num_columns: int, *, leaving_out: int) -> Sequence[int]:
        """Those of a file with so many columns."""
        following = range(self.named[-1] + 1, num_columns + 1) if self.is_open else ()
        return [column for column in (*self.named, *following) if column != leaving_out]


class _Columns(ParameterType):
    """Reads `2`, `2,3` and `2-`."""

    name = "columns"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> ReferenceColumns:
        if isinstance(value, ReferenceColumns):
            return value
        text = str(value)
        if not _FORM.fullmatch(text):
            self.fail(f"{text!r} is not a column (2), a list (2,3) or an open range (2-)", param, ctx)
        return ReferenceColumns(tuple(map(int, text.rstrip("-").split(","))), text.endswith("-"))


REFERENCE_COLUMNS = _Columns()
