"""ⓕ The report of a run: an HTML page and its pictures."""

import json
import logging
from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from model.errors import TranslationError
from model.evaluation import METRIC_NAMES
from model.files import atomic_folder
from model.training.report.attention import draw_attention
from model.training.report.curves import write_curves
from model.training.report.run_record import RunRecord, summarise
from model.training.report.translations import (
    LengthBucket,
    SentenceHistory,
    most_improved,
    most_worsened,
    score_by_length,
    sentence_histories,
    worst,
    write_by_length,
)
from model.training.run_folder.folder import RunFolder
from model.training.validation.validator import TranslatedText

logger = logging.getLogger(__name__)

PAGE = "index.html"

_SHOWN = 8
"""Sentences per kind and direction."""


def write_report(folder: RunFolder, *, attention: int | None = None) -> Path:
    """Write the report of a run in any state; it replaces an earlier report atomically.

    Args:
        folder: The run's.
        attention: Sentences of each direction whose attention is drawn; None takes `validation.heat_maps`.

    Returns:
        Path of the page.

    Raises:
        ModuleNotFoundError: Without matplotlib and jinja2, which the extra `train` brings.
        TrainingError: If the folder is not a run's.
        CheckpointError: If its checkpoint is not sound.
        OSError: If the report cannot be written; an earlier report is kept.
    """
    record = RunRecord.read(folder)
    if attention is None:
        attention = int(record.config.get("validation", {}).get("heat_maps", 0))
    with atomic_folder(folder.report) as place:
        page = _render(record, place, attention)
        (place / PAGE).write_text(page, encoding="utf-8")
    return folder.report / PAGE


def _render(record: RunRecord, place: Path, attention: int) -> str:
    """Draw the pictures in `place`, and return the page."""
    environment = Environment(
        loader=PackageLoader("model.training.report"),
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
    """Remarkable sentences by direction and kind."""
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


def report_if_possible(folder: RunFolder) -> None:
    """Write the report of a run, or log why it cannot be written."""
    try:
        page = write_report(folder)
    except ModuleNotFoundError as missing:
        advice = f"`dragoman report {folder.root}` writes it once dragoman[train] is installed"
        logger.warning("no report: %s is missing; %s", missing.name, advice)
    except (TranslationError, OSError) as error:
        logger.error("no report: %s; `dragoman report %s` tries again", error, folder.root)
    except Exception:  # matplotlib raises errors of many kinds, for a broken font for example
        logger.exception("no report; `dragoman report %s` tries again", folder.root)
    else:
        logger.info("the report is %s", page)
