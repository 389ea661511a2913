"""ⓕ The report of a run: a page and its pictures, which need no network to be opened."""

import json
from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from model.training.held_out import TranslatedText
from model.training.reporting.attention import draw_attention
from model.training.reporting.by_length import LengthBucket, score_by_length, write_by_length
from model.training.reporting.curves import write_curves
from model.training.reporting.run_record import RunRecord
from model.training.reporting.sentences import (
    SentenceHistory,
    most_improved,
    most_worsened,
    sentence_histories,
    worst,
)
from model.training.reporting.summary import summarise
from model.training.run_config import METRIC_NAMES
from model.training.run_folder import RunFolder
from model.whole import written_whole

PAGE = "index.html"

_SHOWN = 8
"""Sentences of a kind and direction."""


def write_report(folder: RunFolder, *, attention: int | None = None) -> Path:
    """Write the report of a run, whatever state it is in; one from before is replaced as a whole.

    Args:
        folder: The run's.
        attention: Sentences of each direction whose attention is drawn; None takes the run's own number.

    Returns:
        The page.

    Raises:
        ModuleNotFoundError: Without matplotlib and jinja2, which the extra `train` brings.
        TrainingError: If the folder is not a run's.
        CheckpointError: If its checkpoint is not sound.
        OSError: If the report cannot be written; one from before is kept.
    """
    record = RunRecord.read(folder)
    if attention is None:
        attention = int(record.config.get("validation", {}).get("heat_maps", 0))
    with written_whole(folder.report) as place:
        page = _render(record, place, attention)
        (place / PAGE).write_text(page, encoding="utf-8")
    return folder.report / PAGE


def _render(record: RunRecord, place: Path, attention: int) -> str:
    """The page, once its pictures are drawn in `place`."""
    environment = Environment(
        loader=PackageLoader("model.training.reporting"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["place"] = lambda path: path.relative_to(place).as_posix()
    buckets = {text.pair: score_by_length(text) for text in (record.best.texts if record.best else ())}
    return environment.get_template(PAGE).render(
        record=record,
        metric_names=METRIC_NAMES,
        facts=summarise(record),
        curves=write_curves(record.events, place / "curves"),
        by_length=buckets,
        length_pictures=_length_pictures(buckets, place / "by-length"),
        sentences=_sentences(record),
        attention=draw_attention(record, attention, place / "attention"),
        configuration=json.dumps(record.config, indent=2, ensure_ascii=False),
    )


def _length_pictures(buckets: dict[str, tuple[LengthBucket, ...]], folder: Path) -> dict[str, Path]:
    pictures = {}
    for metric, name in METRIC_NAMES.items() if buckets else ():
        pictures[name] = folder / f"{metric}.png"
        write_by_length(buckets, metric, pictures[name])
    return pictures


def _sentences(record: RunRecord) -> dict[str, dict[str, Sequence[SentenceHistory]]]:
    """By direction, by what is remarkable about them."""
    return {text.pair: _remarkable(record, text) for text in (record.best.texts if record.best else ())}


def _remarkable(record: RunRecord, after: TranslatedText) -> dict[str, Sequence[SentenceHistory]]:
    is_later = record.first is not None and record.best is not None and record.first.step < record.best.step
    earlier = {text.pair: text for text in record.first.texts} if record.first and is_later else {}
    histories = sentence_histories(earlier.get(after.pair), after)
    return {
        "Worst": worst(histories, _SHOWN),
        "Most improved": most_improved(histories, _SHOWN),
        "Worsened": most_worsened(histories, _SHOWN),
    }
