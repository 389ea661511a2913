"""ⓕ What a finished run leaves beside its checkpoints: curves, attention heat maps, provenance."""

import json
import logging
from collections.abc import Mapping, Sequence
from itertools import islice

from model.checkpoint import load_checkpoint
from model.text.tokenizer import Tokenizer
from model.training.reporting.curves import write_curves
from model.training.reporting.heat_maps import write_heat_maps
from model.training.reporting.journal import Journal
from model.training.run_folder import RunFolder, write_text_whole
from model.training.validation import HeldOut, encode_source

logger = logging.getLogger(__name__)


def conclude(
    folder: RunFolder,
    journal: Journal,
    description: Mapping[str, object],
    *,
    tokenizer: Tokenizer,
    held_out: Sequence[HeldOut],
    curves: bool,
    heat_maps: int,
) -> None:
    """Write `provenance.json` and the plots.

    Args:
        folder: The run's.
        journal: Where the curves come from.
        description: The provenance.
        tokenizer: The run's.
        held_out: Whose first sentences' attention is drawn.
        curves: Whether to draw the run's curves.
        heat_maps: How many of each direction; 0 draws none.
    """
    write_text_whole(folder.provenance, json.dumps(description, indent=2, ensure_ascii=False) + "\n")
    try:
        if curves:
            write_curves(journal.events(), folder.plots)
        if heat_maps:
            _write_heat_maps(folder, tokenizer, held_out, heat_maps)
    except ModuleNotFoundError:
        logger.warning("no plots: they need matplotlib, which dragoman[train] brings")


def _write_heat_maps(
    folder: RunFolder, tokenizer: Tokenizer, held_out: Sequence[HeldOut], count: int
) -> None:
    """Attention of the last checkpoint, where there is one yet, over held-out sentences and references."""
    last = folder.checkpoints / "last"
    if not last.is_dir():
        return
    network = load_checkpoint(last).network()
    for texts in held_out:
        rows = islice(zip(texts.sources, texts.references, strict=True), count)
        for number, (source, reference) in enumerate(rows, start=1):
            place = folder.plots / f"{texts.source_language}-{texts.target_language}-{number}"
            source_ids = encode_source(tokenizer, source, texts.target_language)
            write_heat_maps(network, source_ids, tokenizer.encode_target(reference), tokenizer, place)
