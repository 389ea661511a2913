"""A training run in pieces: each call goes on where the last one was, for so many minutes at most."""

import json
import time
from dataclasses import dataclass, replace
from pathlib import Path

from model.files import write_text_whole
from model.training.config.train_config import TrainConfig
from model.training.device import prepared_processor
from model.training.report.report import report_if_possible
from model.training.run import Run
from model.training.run_folder.folder import RunFolder
from model.training.run_folder.resume_checks import require_unchanged

_ENDED = "ended.json"
_LIMITS = ("max_steps", "max_minutes", "max_epochs")


@dataclass(frozen=True)
class Deadline:
    """A moment after which nothing long is begun.

    Attributes:
        moment: By the monotonic clock, in seconds; infinity for none.
    """

    moment: float

    @classmethod
    def after(cls, minutes: float) -> "Deadline":
        """So many minutes from now; 0 for no end."""
        return cls(time.monotonic() + minutes * 60 if minutes else float("inf"))

    @property
    def is_past(self) -> bool:
        """Whether it has come."""
        return time.monotonic() >= self.moment


@dataclass(frozen=True)
class Ending:
    """How a run ended.

    Attributes:
        reason: Which limit, or early stopping.
        step: Updates done.
        minutes: Of training, over all calls.
        tokens: Source and target tokens trained on.
    """

    reason: str
    step: int
    minutes: float
    tokens: int


def train(config: TrainConfig, deadline: Deadline) -> Ending | None:
    """Begin or go on with a run, until it ends or the deadline comes; None if there is more to do.

    What is written about the end in the run's folder spares the next call to begin anew, unless the
    limits of the run are others by then.

    Raises:
        TranslationError: As Run; and if the run has ended, but under another configuration.
    """
    folder = RunFolder(Path(config.run.folder))
    note = folder.root / _ENDED
    limits = {name: getattr(config.run, name) for name in _LIMITS} | {"patience": config.validation.patience}
    if note.exists():
        written = json.loads(note.read_text(encoding="utf-8"))
        if written["limits"] == limits:
            require_unchanged(folder, config)
            return Ending(**written["ending"])
    # A report takes time that a call may not have; it is for the end of all of them.
    quiet = replace(config, run=replace(config.run, plots=False))
    with prepared_processor(config.run.threads):
        run = Run(quiet, resume=True, hook=lambda *_: run.trainer.interrupt() if deadline.is_past else None)
        reason = run.run()
    if reason == "interrupted":
        return None
    if config.run.plots:
        report_if_possible(run.folder)
    position = run.trainer.position
    ending = Ending(reason, position.step, position.seconds / 60, position.tokens)
    write_text_whole(note, json.dumps({"limits": limits, "ending": vars(ending)}, indent=1) + "\n")
    return ending
