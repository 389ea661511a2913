"""Attention as pictures: which files, how they are labelled, how large they grow."""

import struct
import warnings
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from model.checkpoint.folder import Checkpoint, load_checkpoint
from model.training.report.pictures import families_for, write_curves, write_heat_maps

SOURCE, TARGET = "The cat sleeps.", "Le chat dort."
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(scope="module")
def checkpoint(tiny_checkpoint: Path) -> Checkpoint:
    return load_checkpoint(tiny_checkpoint)


@pytest.fixture(scope="module")
def figures(checkpoint: Checkpoint, tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Figure]:
    """Pictures of one sentence, of which the last one is drawn: the others would take seconds."""
    saved: dict[Path, Figure] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Figure, "savefig", lambda figure, path: saved.update({path: figure}))
        assert draw(checkpoint, SOURCE, TARGET, tmp_path_factory.mktemp("maps")) == list(saved)
    path, figure = list(saved.items())[-1]
    figure.savefig(path)
    return saved


def draw(checkpoint: Checkpoint, source: str, target: str, folder: Path) -> list[Path]:
    tokenizer = checkpoint.tokenizer
    source_ids = tokenizer.encode(source, target_language="fr")
    return write_heat_maps(
        checkpoint.network(), source_ids, tokenizer.encode_target(target), tokenizer, folder
    )


def test_a_picture_for_every_kind_and_layer(figures: dict[Path, Figure]) -> None:
    assert [path.name for path in figures] == [
        "encoder-1.png",
        "encoder-2.png",
        "decoder-1.png",
        "cross-1.png",
    ]
    content = list(figures)[-1].read_bytes()
    assert content.startswith(PNG)
    width, height = struct.unpack(">II", content[16:24])
    assert width > height > 100


def test_heads_side_by_side_under_a_title_with_tokens_on_both_axes(
    figures: dict[Path, Figure], checkpoint: Checkpoint
) -> None:
    figure, tokenizer = list(figures.values())[-1], checkpoint.tokenizer
    *heads, colour_bar = figure.axes
    assert figure.get_suptitle() == "Cross-attention, layer 1"
    assert [axes.get_title() for axes in heads] == ["head 1", "head 2"]
    assert colour_bar.get_ylabel() == "attention weight"
    labels = heads[0].get_xticklabels(), heads[0].get_yticklabels()
    columns, rows = ([label.get_text() for label in side] for side in labels)
    assert columns == tokenizer.source_pieces(tokenizer.encode(SOURCE, target_language="fr"))
    assert columns[0] == "<2fr>"
    # What the decoder has read when it chooses the next token: never the last one, EOS.
    assert rows == tokenizer.pieces([tokenizer.bos_id, *tokenizer.encode_target(TARGET)[:-1]])
    # Otherwise matplotlib would read dollar signs as formulas.
    assert not any(label.get_parse_math() for side in labels for label in side)


def test_every_row_shows_all_its_attention(figures: dict[Path, Figure]) -> None:
    for axes in (axes for figure in figures.values() for axes in figure.axes[:-1]):
        (image,) = axes.images
        assert image.get_array().sum(axis=1).tolist() == pytest.approx([1] * image.get_size()[0], abs=1e-5)
        assert image.get_clim() == (0, 1)


def test_long_sentences_make_a_picture_of_bounded_size(
    checkpoint: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, _: saved.append(figure))
    text = "The price is in the window of the shop, which is closed."
    draw(checkpoint, text, text, tmp_path)
    assert len(checkpoint.tokenizer.encode_target(text)) > 50
    width, height = saved[-1].get_size_inches()
    assert width <= 2 * 9.3 + 2
    assert height <= 11


# Of a private area, where no installed font has anything; a script of matplotlib's own symbol fonts.
NOWHERE, SYMBOL = "\U0010fffd", "\u23b4"


def draw_text(text: str, families: list[str], folder: Path) -> bytes:
    """A picture of the text, which matplotlib drew without a complaint."""
    figure = Figure(figsize=(1, 1))
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
    assert draw_text(SYMBOL, [usual, *others], tmp_path) != draw_text("a", [usual, *others], tmp_path)


def test_what_no_font_has_is_a_box_and_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    families = families_for([NOWHERE])
    assert f"no installed font has {NOWHERE}:" in caplog.text
    draw_text(NOWHERE, families, tmp_path)


UPDATES = [
    {"kind": "update", "step": s, "loss": 5 / s, "cross_entropy": 4 / s, "learning_rate": s, "mfu": 0.4}
    for s in (1, 2, 3)
]
TIMED = [{**update, "tokens_per_second": 100.0, "seconds": 60.0} for update in UPDATES]
VALIDATION = {
    "kind": "validation",
    "step": 3,
    "cross_entropy": 2.0,
    "directions": {"en-fr": {"bleu": 20.0, "chrf": 40.0}, "fr-en": {"bleu": 21.0, "chrf": 41.0}},
}
OF_UPDATES = {"Loss", "Learning rate", "Model FLOPs utilisation"}


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(
    ("events", "titles"),
    [
        ([*UPDATES, VALIDATION], OF_UPDATES | {"BLEU", "chrF"}),
        (UPDATES, OF_UPDATES),
        (TIMED, OF_UPDATES | {"Throughput", "Throughput over time"}),
        ([], set()),
    ],
    ids=["all", "no validation", "time", "nothing"],
)
def test_a_picture_of_everything_there_is_to_draw(
    tmp_path: Path, events: list[dict[str, Any]], titles: set[str]
) -> None:
    assert set(write_curves(events, tmp_path)) == titles


def test_curves_are_pictures(tmp_path: Path) -> None:
    (curve,) = write_curves([{"kind": "update", "step": 1, "loss": 5.0}], tmp_path / "curves").values()
    assert curve.read_bytes().startswith(PNG)
