"""ⓕ What a network looks at, as PNG: attention weights of each layer and head for one sentence pair."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from model.text.tokenizer import Tokenizer
from model.transformer import Transformer


@torch.inference_mode()
def write_heat_maps(
    network: Transformer,
    source_ids: Sequence[int],
    target_ids: Sequence[int],
    tokenizer: Tokenizer,
    folder: Path,
) -> list[Path]:
    """Draw `encoder-LAYER.png`, `decoder-LAYER.png` and `cross-LAYER.png`, heads side by side.

    Args:
        network: In evaluation mode.
        source_ids: What the encoder reads: tag, pieces, EOS.
        target_ids: The translation, with or without EOS; the decoder reads it after its start token.
        tokenizer: Names the rows (queries) and columns (keys).
        folder: Where to write; made if need be.

    Returns:
        The files. Needs matplotlib, which the extra `train` brings.
    """
    device = network.output.weight.device
    read = [network.config.decoder_start_id, *target_ids][: len(target_ids)]
    source_NS, read_NT = torch.tensor([source_ids], device=device), torch.tensor([read], device=device)
    _, maps = network.forward_with_attention(source_NS, read_NT)
    sources, targets = tokenizer.source_pieces(source_ids), tokenizer.pieces(read)
    folder.mkdir(parents=True, exist_ok=True)
    drawn = (
        ("encoder", maps.encoder, sources, sources),
        ("decoder", maps.decoder, targets, targets),
        ("cross", maps.cross, targets, sources),
    )
    return [
        _write(folder / f"{name}-{number}.png", weights_NHQS[0].float().cpu(), rows, columns)
        for name, layers, rows, columns in drawn
        for number, weights_NHQS in enumerate(layers, start=1)
    ]


def _write(path: Path, weights_HQS: Tensor, rows: Sequence[str], columns: Sequence[str]) -> Path:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    num_heads = len(weights_HQS)
    cell = 0.32
    size = (num_heads * (cell * len(columns) + 1.2) + 0.6, cell * len(rows) + 1.6)
    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    for head, weights_QS in enumerate(weights_HQS):
        axes = figure.add_subplot(1, num_heads, head + 1, title=f"head {head + 1}")
        image = axes.imshow(weights_QS.numpy(), vmin=0, vmax=1, cmap="Reds")
        axes.set_xticks(range(len(columns)), columns, rotation=90)
        axes.set_yticks(range(len(rows)), rows if head == 0 else [""] * len(rows))
    figure.colorbar(image, ax=figure.axes, shrink=0.7)
    figure.savefig(path, dpi=120)
    return path
