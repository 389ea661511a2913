import warnings
from pathlib import Path
from typing import Any

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from model.training.report.curves import families_for, write_curves

PNG = b"\x89PNG"
UPDATES = [
    {"kind": "update", "step": s, "loss": 5 / s, "cross_entropy": 4 / s, "learning_rate": s, "mfu": 0.4}
    for s in (1, 2, 3)
]
VALIDATION = {
    "kind": "validation",
    "step": 3,
    "cross_entropy": 2.0,
    "directions": {"en-fr": {"bleu": 20.0, "chrf": 40.0}, "fr-en": {"bleu": 21.0, "chrf": 41.0}},
}
OF_UPDATES = {"Loss", "Learning rate", "Model FLOPs utilisation"}


@pytest.mark.parametrize(
    ("events", "titles"),
    [([*UPDATES, VALIDATION], OF_UPDATES | {"BLEU", "chrF"}), (UPDATES, OF_UPDATES), ([], set())],
    ids=["all", "no validation", "nothing"],
)
def test_a_picture_of_everything_there_is_to_draw(
    tmp_path: Path, events: list[dict[str, Any]], titles: set[str]
) -> None:
    pictures = write_curves(events, tmp_path / "curves")
    assert set(pictures) == titles
    assert all(file.read_bytes().startswith(PNG) for file in pictures.values())


def test_throughput_is_drawn_over_time_where_the_journal_has_the_time(tmp_path: Path) -> None:
    updates = [{**update, "tokens_per_second": 100.0, "seconds": 60.0} for update in UPDATES]
    assert {"Throughput", "Throughput over time"} <= set(write_curves(updates, tmp_path))


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
