"""Labels in any script: a font for each character, or a box and a word of warning."""

import warnings
from pathlib import Path

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from model.training.report.curves import families_for

# Of a private area, where no installed font has anything; a script of matplotlib's own symbol fonts.
NOWHERE, SYMBOL = "\U0010fffd", "\u23b4"


def draw(text: str, families: list[str], folder: Path) -> bytes:
    """A picture of the text, which matplotlib drew without a complaint."""
    figure = Figure(figsize=(1, 1))
    FigureCanvasAgg(figure)
    figure.text(0.5, 0.5, text, fontfamily=families)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure.savefig(folder / "text.png")
    return (folder / "text.png").read_bytes()


def test_what_the_usual_font_has_needs_no_other(caplog: pytest.LogCaptureFixture) -> None:
    assert families_for(["Où ?", "Größe", "привет"]) == families_for([])
    assert not caplog.records


def test_another_font_is_found_for_what_the_usual_one_lacks(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    usual, *others = families_for(["a", SYMBOL])
    assert [usual] == families_for([])
    assert len(others) == 1
    assert not caplog.records
    assert draw(SYMBOL, [usual, *others], tmp_path) != draw("a", [usual, *others], tmp_path)


def test_what_no_font_has_is_a_box_and_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    families = families_for([NOWHERE])
    assert f"no installed font has {NOWHERE}:" in caplog.text
    draw(NOWHERE, families, tmp_path)
