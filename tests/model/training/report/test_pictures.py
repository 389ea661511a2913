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


@pytest.fixture(scope="module")
def checkpoint(tiny_checkpoint: Path) -> Checkpoint:
    return load_checkpoint(tiny_checkpoint)


@pytest.fixture(scope="module")
def drawn(
    checkpoint: Checkpoint, tmp_path_factory: pytest.TempPathFactory
) -> tuple[list[Path], list[Figure]]:
    """Pictures of one sentence, as files and as the figures that were saved."""
    saved: list[Figure] = []
    original = Figure.savefig

    def savefig(figure: Figure, path: Path) -> None:
        saved.append(figure)
        original(figure, path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Figure, "savefig", savefig)
        return draw(checkpoint, SOURCE, TARGET, tmp_path_factory.mktemp("maps")), saved


def draw(checkpoint: Checkpoint, source: str, target: str, folder: Path) -> list[Path]:
    tokenizer = checkpoint.tokenizer
    source_ids = tokenizer.encode(source, target_language="fr")
    return write_heat_maps(
        checkpoint.network(), source_ids, tokenizer.encode_target(target), tokenizer, folder
    )


def test_a_picture_for_every_kind_and_layer(
    drawn: tuple[list[Path], list[Figure]], checkpoint: Checkpoint
) -> None:
    files, config = drawn[0], checkpoint.config
    layers = {
        "encoder": config.num_encoder_layers,
        "decoder": config.num_decoder_layers,
        "cross": config.num_decoder_layers,
    }
    expected = [f"{kind}-{layer + 1}.png" for kind, count in layers.items() for layer in range(count)]
    assert [file.name for file in files] == expected
    for file in files:
        width, height = png_size(file)
        assert width > height > 100


def test_heads_side_by_side_under_a_title_with_tokens_on_both_axes(
    drawn: tuple[list[Path], list[Figure]], checkpoint: Checkpoint
) -> None:
    figure, config, tokenizer = drawn[1][-1], checkpoint.config, checkpoint.tokenizer
    *heads, colour_bar = figure.axes
    assert figure.get_suptitle() == f"Cross-attention, layer {config.num_decoder_layers}"
    assert [axes.get_title() for axes in heads] == [f"head {head + 1}" for head in range(config.num_heads)]
    assert colour_bar.get_ylabel() == "attention weight"
    columns = [label.get_text() for label in heads[0].get_xticklabels()]
    assert columns == tokenizer.source_pieces(tokenizer.encode(SOURCE, target_language="fr"))
    assert columns[0] == "<2fr>"
    rows = [label.get_text() for label in heads[0].get_yticklabels()]
    # What the decoder has read when it chooses the next token: never the last one, EOS.
    assert rows == tokenizer.pieces([tokenizer.bos_id, *tokenizer.encode_target(TARGET)[:-1]])


def test_every_row_shows_all_its_attention(drawn: tuple[list[Path], list[Figure]]) -> None:
    for figure in drawn[1]:
        for axes in figure.axes[:-1]:
            (image,) = axes.images
            assert image.get_array().sum(axis=1).tolist() == pytest.approx(
                [1] * image.get_size()[0], abs=1e-5
            )
            assert image.get_clim() == (0, 1)


def test_long_sentences_and_dollar_signs_make_a_picture_of_bounded_size(
    checkpoint: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def save_cross_attention(figure: Figure, path: Path) -> None:
        if path.name.startswith("cross"):  # drawing takes seconds
            original(figure, path)

    original = Figure.savefig
    monkeypatch.setattr(Figure, "savefig", save_cross_attention)
    text = r"It costs $5 or $\frac$, says the price list in the window of the shop, which is $$ closed."
    width, height = png_size(draw(checkpoint, text, text, tmp_path)[-1])
    assert len(checkpoint.tokenizer.encode_target(text)) > 50
    assert width <= 150 * (checkpoint.config.num_heads * 9.3 + 2) + 1
    assert height <= 150 * 11 + 1


def png_size(path: Path) -> tuple[int, int]:
    """Width and height in pixels, from the header."""
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", content[16:24])
    return width, height


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
