"""ⓕ Where the network of a run looks while it translates a few held-out sentences."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from model.text.scripts import count_words
from model.training.held_out import Row
from model.training.reporting.heat_maps import write_heat_maps
from model.training.reporting.run_record import RunRecord

_EASY_TO_SEE = range(4, 16)
"""Words of a source whose pictures are neither trivial nor too small to read."""


@dataclass(frozen=True)
class AttentionExample:
    """One sentence and its pictures.

    Attributes:
        pair: Its direction.
        row: Source, reference and translation.
        pictures: Files, the encoder's layers first.
    """

    pair: str
    row: Row
    pictures: Sequence[Path]


def draw_attention(record: RunRecord, count: int, folder: Path) -> list[AttentionExample]:
    """Draw so many sentences of each direction; none before the run's first checkpoint.

    The decoder reads the translation that validation found.
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
    """Translated sentences of a direction, those that are easy to look at first."""
    kept = [
        row for text in (record.best.texts if record.best else ()) if text.pair == pair for row in text.rows()
    ]
    translated = [row for row in kept or _samples(record, pair) if row.translation]
    return sorted(translated, key=lambda row: count_words(row.source) not in _EASY_TO_SEE)


def _samples(record: RunRecord, pair: str) -> list[Row]:
    """What the journal shows of a run that kept no translations."""
    best = record.best_validation
    direction = best["directions"].get(pair, {}) if best else {}
    return [Row(**sample) for sample in direction.get("samples", ())]
