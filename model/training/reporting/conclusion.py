"""ⓕ What a finished run leaves beside its checkpoints: provenance, and a report."""

import json
import logging
from collections.abc import Mapping

from model.errors import TranslationError
from model.training.run_folder import RunFolder
from model.whole import write_text_whole

logger = logging.getLogger(__name__)


def conclude(folder: RunFolder, description: Mapping[str, object], *, report: bool) -> None:
    """Write `provenance.json` and, if asked for, the report.

    Args:
        folder: The run's.
        description: The provenance.
        report: Whether to write one; see `report_if_possible`.
    """
    write_text_whole(folder.provenance, json.dumps(description, indent=2, ensure_ascii=False) + "\n")
    if report:
        report_if_possible(folder)


def report_if_possible(folder: RunFolder) -> None:
    """Write the report of a run; where that cannot be, the log says why: a run is not worth less without."""
    try:
        from model.training.reporting.report import write_report

        page = write_report(folder)
    except ModuleNotFoundError as missing:
        advice = f"`dragoman report {folder.root}` writes it once dragoman[train] is installed"
        logger.warning("no report: %s is missing; %s", missing.name, advice)
    except (TranslationError, OSError) as error:
        logger.error("no report: %s; `dragoman report %s` tries again", error, folder.root)
    except Exception:  # a broken font, say: what draws has errors of many kinds
        logger.exception("no report; `dragoman report %s` tries again", folder.root)
    else:
        logger.info("the report is %s", page)
