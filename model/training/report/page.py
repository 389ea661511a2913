"""ⓕ The report of a run: an HTML page and its pictures."""

import json
import logging
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from model.errors import TranslationError
from model.evaluation import METRIC_NAMES
from model.files import atomic_folder
from model.training.report.attention import draw_attention
from model.training.report.curves import write_curves
from model.training.report.run_record import RunRecord, summarise
from model.training.report.translations import (
    SentenceHistory,
    remarkable,
    score_by_length,
    sentence_histories,
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
        folder: The run's folder.
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
    texts = record.best.texts if record.best else ()
    buckets = {text.pair: score_by_length(text) for text in texts}
    length_pictures = {name: place / "by-length" / f"{each}.png" for each, name in METRIC_NAMES.items()}
    for metric, picture in zip(METRIC_NAMES, length_pictures.values(), strict=True) if buckets else ():
        write_by_length(buckets, metric, picture)
    return environment.get_template(PAGE).render(
        record=record,
        metric_names=METRIC_NAMES,
        facts=summarise(record),
        curves=write_curves(record.events, place / "curves"),
        by_length=buckets,
        length_pictures=length_pictures,
        sentences={text.pair: remarkable(_histories(record, text), _SHOWN) for text in texts},
        attention=draw_attention(record, attention, place / "attention"),
        configuration=json.dumps(record.config, indent=2, ensure_ascii=False),
    )


def _histories(record: RunRecord, after: TranslatedText) -> list[SentenceHistory]:
    """The sentences of a direction in the best validation, and in the first one if that was another."""
    is_later = record.first is not None and record.best is not None and record.first.step < record.best.step
    texts = record.first.texts if record.first and is_later else ()
    before = next((text for text in texts if text.pair == after.pair), None)
    return sentence_histories(before, after)


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
