"""ⓕ What a run's folder tells about the run, whether it has ended, was killed or is under way."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from model.checkpoint import Checkpoint, load_checkpoint
from model.discovery import is_run_folder
from model.errors import TrainingError
from model.training.reporting.journal import Event, Journal
from model.training.reporting.kept_translations import KeptTranslations, Translations
from model.training.run_config import Metric
from model.training.run_folder import RunFolder


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """Everything that a report is made of.

    Attributes:
        name: Of the folder.
        config: As the run has it, in plain values.
        events: Its journal.
        provenance: What was trained on what; None before the first checkpoint.
        has_ended: Whether it has said so; a run that is under way or was killed has not.
        first: Translations of the first validation; None where none were kept.
        best: Those of the best one.
        checkpoint: The best one, else the last; None before the first.
    """

    name: str
    config: Mapping[str, Any]
    events: Sequence[Event]
    provenance: Mapping[str, Any] | None
    has_ended: bool
    first: Translations | None
    best: Translations | None
    checkpoint: Checkpoint | None

    @classmethod
    def read(cls, folder: RunFolder) -> Self:
        """Look into a run's folder.

        Raises:
            TrainingError: If it is none.
            CheckpointError: If its checkpoint is not sound.
        """
        if not folder.config.is_file():
            raise TrainingError(f"{folder.root} is not the folder of a run: it has no {folder.config.name}")
        if not is_run_folder(folder.root):
            raise TrainingError(f"{folder.root} is not the folder of a run: {folder.config} is not a run's")
        events = Journal(folder.log).events()
        ending = _json(folder.provenance)
        if ending is not None and ending["steps"] < max((event["step"] for event in events), default=0):
            ending = None  # the run has been resumed since
        place, kept = folder.good_checkpoint, KeptTranslations(folder.translations)
        checkpoint = None if place is None else load_checkpoint(place)
        return cls(
            name=folder.root.resolve().name,
            config=_json(folder.config) or {},
            events=events,
            provenance=ending or (checkpoint.provenance if checkpoint else None),
            has_ended=ending is not None,
            first=kept.read("first"),
            best=kept.read("best"),
            checkpoint=checkpoint,
        )

    @property
    def updates(self) -> list[Event]:
        """What was measured while training."""
        return [event for event in self.events if event["kind"] == "update"]

    @property
    def validations(self) -> list[Event]:
        """What was measured between."""
        return [event for event in self.events if event["kind"] == "validation"]

    @property
    def metric(self) -> Metric:
        """What chose the best checkpoint."""
        return "chrf" if self.config.get("validation", {}).get("metric") == "chrf" else "bleu"

    @property
    def best_validation(self) -> Event | None:
        """The first of those with the highest score."""
        return max(self.validations, key=lambda event: float(event[self.metric]), default=None)


def _json(file: Path) -> dict[str, Any] | None:
    if not file.exists():
        return None
    values: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return values
