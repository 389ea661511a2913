"""The pictures of a report as PNG: the run's curves, and heat maps of attention weights."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from model.checkpoint.folder import Checkpoint
from model.network.transformer import Transformer
from model.text.languages import count_words
from model.text.tokenizer import Tokenizer
from model.training.run_folder.folder import Event
from model.training.validation import Row, TranslatedText

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.font_manager import FontProperties
    from matplotlib.image import AxesImage

logger = logging.getLogger(__name__)

Points = list[tuple[float, float]]

_MOST_MARKED = 50
"""Points of a line that are marked one by one."""

_LOSSES = (
    ("update", "loss", "training, smoothed labels"),
    ("update", "cross_entropy", "training, cross entropy"),
    ("validation", "cross_entropy", "validation, cross entropy"),
)
_SINGLE = (
    ("learning_rate", "Learning rate", "rate"),
    ("gradient_norm", "Gradient norm before clipping", "L2 norm"),
    ("tokens_per_second", "Throughput", "tokens/s"),
    ("padding_share", "Padding", "share of what is computed"),
    ("mfu", "Model FLOPs utilisation", "share of the device's peak"),
)


def write_curves(events: Sequence[Event], folder: Path) -> dict[str, Path]:
    """Draw a PNG for every curve that the log has values of.

    Needs matplotlib, which the extra `train` brings.

    Args:
        events: Events of the log.
        folder: Folder of the pictures; created if missing.

    Returns:
        The files by title.
    """
    updates = [event for event in events if event["kind"] == "update"]
    validations = [event for event in events if event["kind"] == "validation"]
    of_kind = {"update": updates, "validation": validations}
    drawn: dict[str, Path] = {}

    def draw(name: str, title: str, unit: str, lines: Mapping[str, Points], across: str = "step") -> None:
        if any(lines.values()):
            drawn[title] = folder / f"{name}.png"
            _write_picture(drawn[title], across, unit, lines)

    draw("loss", "Loss", "nats a target token", {label: _points(of_kind[k], v) for k, v, label in _LOSSES})
    for metric, title in (("bleu", "BLEU"), ("chrf", "chrF")):
        draw(metric, title, title, _by_direction(validations, metric))
    for name, title, unit in _SINGLE:
        draw(name, title, unit, {unit: _points(updates, name)})
    # Over the time, because that shows when a run stopped or slowed down.
    timed = _points(updates, "tokens_per_second", across=lambda event: float(event["seconds"]) / 60)
    draw("throughput_over_time", "Throughput over time", "tokens/s", {"tokens/s": timed}, "minutes")
    return drawn


def _write_picture(path: Path, across: str, upwards: str, lines: Mapping[str, Points]) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.add_subplot(xlabel=across, ylabel=upwards)
    for label, points in lines.items():
        if points:
            marker = "o" if len(points) < _MOST_MARKED else ""
            axes.plot(*zip(*points, strict=True), marker=marker, markersize=4, label=label)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize="small")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def _points(
    events: Sequence[Event], value: str, across: Callable[[Event], float] = lambda event: float(event["step"])
) -> Points:
    return [(across(event), event[value]) for event in events if value in event]


def _by_direction(validations: Sequence[Event], metric: str) -> dict[str, Points]:
    pairs = dict.fromkeys(pair for event in validations for pair in event["directions"])
    return {
        pair: [
            (event["step"], event["directions"][pair][metric])
            for event in validations
            if pair in event["directions"]
        ]
        for pair in pairs
    }


_BOXES = "Last Resort High-Efficiency"
"""A font of matplotlib that has a box for every character."""
_WORD_BOUNDARY = "\u2581"
_DOTS_PER_INCH = 150
# Inches of the side of one weight; smaller for long sentences, which bounds the size of the picture.
_LARGEST_CELL, _LONGEST_SIDE = 0.36, 9.0
# Inches around the weights of a head, for labels and gaps.
_MARGIN = 1.0

_EASY_TO_SEE = range(4, 16)
"""Lengths of sources, in words, that make readable heat maps."""


@dataclass(frozen=True)
class _Side:
    """One axis of a heat map."""

    name: str
    tokens: Sequence[str]


@torch.inference_mode()
def write_heat_maps(
    network: Transformer,
    source_ids: Sequence[int],
    target_ids: Sequence[int],
    tokenizer: Tokenizer,
    folder: Path,
) -> list[Path]:
    """Draw `encoder-LAYER.png`, `decoder-LAYER.png` and `cross-LAYER.png`, heads side by side.

    Rows are queries, columns keys; the weights of a row sum to 1.

    Args:
        network: Network in evaluation mode.
        source_ids: Input of the encoder: tag, pieces, EOS.
        target_ids: The translation, with or without EOS. The decoder reads it after its start token, so the
            row of a token shows the attention that chose the next one.
        tokenizer: Names rows and columns.
        folder: Where to write; created if missing.

    Returns:
        The files.

    Raises:
        ModuleNotFoundError: Without matplotlib, which the extra `train` brings.
    """
    device = network.output.weight.device
    read = [network.config.decoder_start_id, *target_ids][: len(target_ids)]
    source_NS, read_NT = torch.tensor([source_ids], device=device), torch.tensor([read], device=device)
    _, maps = network.forward_with_attention(source_NS, read_NT)
    source = _Side("source", _labels(tokenizer.source_pieces(source_ids)))
    target = _Side("translation so far", _labels(tokenizer.pieces(read)))
    families = families_for([*source.tokens, *target.tokens])
    folder.mkdir(parents=True, exist_ok=True)
    drawn = (
        ("encoder", "Encoder self-attention", maps.encoder, source, source),
        ("decoder", "Decoder self-attention", maps.decoder, target, target),
        ("cross", "Cross-attention", maps.cross, target, source),
    )
    return [
        _write(
            folder / f"{name}-{layer}.png",
            f"{title}, layer {layer}",
            weights_NHQS[0].float().cpu(),
            *sides,
            families=families,
        )
        for name, title, layers, *sides in drawn
        for layer, weights_NHQS in enumerate(layers, start=1)
    ]


def families_for(texts: Iterable[str]) -> list[str]:
    """Matplotlib's default font, and installed fonts for the characters that it lacks.

    Characters that no installed font has are drawn as boxes; a warning names some of them.

    Args:
        texts: Every text to be drawn.

    Returns:
        Font families in the order in which matplotlib tries them.

    Raises:
        ModuleNotFoundError: Without matplotlib, which the extra `train` brings.
    """
    from matplotlib.font_manager import FontProperties, fontManager

    default = FontProperties()
    families = list(default.get_family())
    missing = {ord(character) for character in "".join(texts)} - _characters(fontManager.findfont(default))
    fonts = (font for font in fontManager.ttflist if font.style == "normal" and font.name != _BOXES)
    # Sans-serif fonts of regular weight look most like the default.
    for font in sorted(fonts, key=lambda font: ("Sans" not in font.name, font.weight != 400, font.name)):
        if not missing:
            break
        if missing & (found := _characters(font.fname)):
            families.append(font.name)
            missing -= found
    if missing:
        some = " ".join(map(chr, sorted(missing)[:8]))
        families.append(_BOXES)
        logger.warning("no installed font has %s: boxes stand for them (Noto Sans has most scripts)", some)
    return families


@cache
def _characters(path: str) -> frozenset[int]:
    """Code points that a font file has glyphs for."""
    from matplotlib.ft2font import FT2Font

    return frozenset(FT2Font(path).get_charmap())


def _labels(pieces: Sequence[str]) -> list[str]:
    """Pieces as labels; without SentencePiece's word marks if every piece is a word."""
    ordinary = [piece for piece in pieces if not (piece.startswith("<") and piece.endswith(">"))]
    are_words = all(piece.startswith(_WORD_BOUNDARY) for piece in ordinary)
    return [piece.removeprefix(_WORD_BOUNDARY) for piece in pieces] if are_words else list(pieces)


def _write(
    path: Path, title: str, weights_HQS: Tensor, rows: _Side, columns: _Side, *, families: list[str]
) -> Path:
    from matplotlib.figure import Figure
    from matplotlib.font_manager import FontProperties

    num_heads, num_rows, num_columns = weights_HQS.shape
    cell = min(_LARGEST_CELL, _LONGEST_SIDE / max(num_rows, num_columns))
    width, height = num_heads * (cell * num_columns + 0.3) + 2 * _MARGIN, cell * num_rows + 2 * _MARGIN
    figure = Figure(figsize=(width, height), dpi=_DOTS_PER_INCH, layout="constrained")
    figure.suptitle(title)
    grid = figure.subplots(1, num_heads, squeeze=False, sharey=True)[0]
    for head, (axes, weights_QS) in enumerate(zip(grid, weights_HQS, strict=True), start=1):
        axes.set_title(f"head {head}", fontsize="medium")
        font = FontProperties(family=families, size=min(10.0, 72 * 0.7 * cell))
        image = _draw(axes, weights_QS, rows, columns, font)
    grid[0].set_ylabel(rows.name)
    figure.supxlabel(columns.name, fontsize="medium")
    figure.colorbar(image, ax=list(grid), label="attention weight", aspect=12, pad=0.01)
    figure.savefig(path)
    return path


def _draw(
    axes: "Axes", weights_QS: Tensor, rows: _Side, columns: _Side, font: "FontProperties"
) -> "AxesImage":
    # Without parse_math=False, matplotlib reads dollar signs in tokens as formulas.
    places = range(len(columns.tokens)), range(len(rows.tokens))
    axes.set_xticks(places[0], columns.tokens, fontproperties=font, parse_math=False, rotation=90)
    axes.set_yticks(places[1], rows.tokens, fontproperties=font, parse_math=False)
    axes.tick_params(length=0)
    return axes.imshow(weights_QS.numpy(), vmin=0, vmax=1, cmap="Reds")


@dataclass(frozen=True)
class AttentionExample:
    """One sentence and its heat maps.

    Attributes:
        pair: Its direction as `source-target`.
        row: Source, reference and translation.
        pictures: Files, the encoder's layers first.
    """

    pair: str
    row: Row
    pictures: Sequence[Path]


def draw_attention(
    checkpoint: Checkpoint | None, texts: Sequence[TranslatedText], count: int, folder: Path
) -> list[AttentionExample]:
    """Draw `count` sentences of each direction; none before the run's first checkpoint.

    The decoder reads the translations of `texts`. Sentences with readable heat maps come first.
    """
    if checkpoint is None or not count:
        return []
    network, tokenizer = checkpoint.network(), checkpoint.tokenizer
    drawn = []
    for text in texts:
        translated = [row for row in text.rows() if row.translation]
        translated.sort(key=lambda row: count_words(row.source) not in _EASY_TO_SEE)
        for number, row in enumerate(translated[:count], start=1):
            source_ids = tokenizer.encode(row.source, target_language=text.target_language)
            read = tokenizer.encode_target(row.translation)[: checkpoint.config.max_positions]
            pictures = write_heat_maps(network, source_ids, read, tokenizer, folder / f"{text.pair}-{number}")
            drawn.append(AttentionExample(text.pair, row, pictures))
    return drawn
