"""ⓕ Heat maps of attention weights as PNG, per layer and head."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from model.network.transformer import Transformer
from model.text.scripts import count_words
from model.text.tokenizer import Tokenizer
from model.training.report.curves import families_for
from model.training.report.run_record import RunRecord
from model.training.validation.validator import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.font_manager import FontProperties
    from matplotlib.image import AxesImage

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


def _labels(pieces: Sequence[str]) -> list[str]:
    """Pieces as labels; without SentencePiece's word marks if every piece is a word."""
    ordinary = [piece for piece in pieces if not (piece.startswith("<") and piece.endswith(">"))]
    are_words = all(piece.startswith(_WORD_BOUNDARY) for piece in ordinary)
    return [piece.removeprefix(_WORD_BOUNDARY) for piece in pieces] if are_words else list(pieces)


def _write(
    path: Path, title: str, weights_HQS: Tensor, rows: _Side, columns: _Side, *, families: list[str]
) -> Path:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.font_manager import FontProperties

    num_heads, num_rows, num_columns = weights_HQS.shape
    cell = min(_LARGEST_CELL, _LONGEST_SIDE / max(num_rows, num_columns))
    width, height = num_heads * (cell * num_columns + 0.3) + 2 * _MARGIN, cell * num_rows + 2 * _MARGIN
    figure = Figure(figsize=(width, height), dpi=_DOTS_PER_INCH, layout="constrained")
    FigureCanvasAgg(figure)
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


def draw_attention(record: RunRecord, count: int, folder: Path) -> list[AttentionExample]:
    """Draw `count` sentences of each direction; none before the run's first checkpoint.

    The decoder reads the translation of the best validation.
    """
    checkpoint = record.checkpoint
    if checkpoint is None or not count:
        return []
    network, tokenizer = checkpoint.network(), checkpoint.tokenizer
    drawn = []
    for source, target in checkpoint.card.pairs:
        pair = f"{source}-{target}"
        for number, row in enumerate(islice(_candidates(record, pair), count), start=1):
            source_ids = tokenizer.encode(row.source, target_language=target)
            read = tokenizer.encode_target(row.translation)[: checkpoint.config.max_positions]
            pictures = write_heat_maps(network, source_ids, read, tokenizer, folder / f"{pair}-{number}")
            drawn.append(AttentionExample(pair, row, pictures))
    return drawn


def _candidates(record: RunRecord, pair: str) -> list[Row]:
    """Translated sentences of a direction, those with readable heat maps first."""
    texts = record.best.texts if record.best else ()
    translated = [row for text in texts if text.pair == pair for row in text.rows() if row.translation]
    return sorted(translated, key=lambda row: count_words(row.source) not in _EASY_TO_SEE)
