"""Paragraphs of many runs, as hostile and scanned documents have them."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from model.text.formats.paragraphs import Paragraph, Run


class CountedRuns(list[Run]):
    """Counts the runs that are read."""

    num_read = 0

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        self.num_read += len(found) if isinstance(key, slice) else 1
        return found

    def __iter__(self) -> Iterator[Run]:
        for run in super().__iter__():
            self.num_read += 1
            yield run


@pytest.mark.parametrize("elements", [["b"], ["b", "sup"], ["b", "code", "sup"]])
@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("look", [lambda place, _: place % 2, lambda place, count: 3 * place < count])
def test_work_grows_with_the_number_of_runs(
    elements: Sequence[str], order: int, look: Callable[[int, int], int]
) -> None:
    """Also where a translation puts the runs in another order."""

    def num_read(count: int) -> int:
        kinds = [elements[place % len(elements)] for place in range(count)]
        runs = CountedRuns(
            Run(place, place, "a", f"look {look(place, count)}", element=kind)
            for place, kind in enumerate(kinds)
        )
        marks = [f'<{kind} id="{place}">a</{kind}> ' for place, kind in enumerate(kinds)]
        assert len(list(Paragraph(runs).replacements("".join(marks[::order])))) == kinds.count("b")
        return runs.num_read

    assert num_read(2400) < 2.5 * num_read(1200)
