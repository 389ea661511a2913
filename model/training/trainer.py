"""ⓔ The optimisation loop: batches in, checkpoints out, at any moment ready to be killed and resumed."""

import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from model.errors import DivergenceError
from model.training.averaging import WeightAverages
from model.training.device_batches import DeviceBatches
from model.training.journal import Journal
from model.training.progress import Progress
from model.training.random_state import capture_random_state, restore_random_state
from model.training.run_folder import RunFolder
from model.training.run_state import RunState, load_run_state, save_run_state
from model.training.shelf import CheckpointShelf
from model.training.stopping import EarlyStopping
from model.training.train_config import TrainConfig
from model.training.update import Update, Updater
from model.training.validation import Validator

logger = logging.getLogger(__name__)

EndReason = Literal["max_steps", "max_minutes", "max_epochs", "early_stopping", "interrupted"]
Hook = Callable[[int, Update], None]


@dataclass
class Position:
    """How far a run is; what it has seen so far is exactly what is saved.

    Attributes:
        step: Updates done.
        epoch: Passes over the data, with the share of the current one.
        tokens: Source and target tokens trained on.
        seconds: Time spent, over all resumptions.
        validated_step: Step of the newest validation.
    """

    step: int = 0
    epoch: float = 0.0
    tokens: int = 0
    seconds: float = 0.0
    validated_step: int = 0


class Trainer:
    """Runs updates, logs, validates, saves, and knows when to end.

    Args:
        config: The run's.
        updater: Network and optimiser.
        batches: Where batches come from.
        validator: None if there is nothing to validate on.
        folder: Where the run writes.
        shelf: Keeps checkpoints.
        journal: Keeps events.
        hook: Called after every update, for callers who want to watch or meddle.
    """

    def __init__(
        self,
        config: TrainConfig,
        updater: Updater,
        batches: DeviceBatches,
        *,
        validator: Validator | None,
        folder: RunFolder,
        shelf: CheckpointShelf,
        journal: Journal,
        hook: Hook | None = None,
    ) -> None:
        self._config = config
        self._updater = updater
        self._batches = batches
        self._validator = validator
        self._folder = folder
        self._shelf = shelf
        self._journal = journal
        self._hook = hook
        self._averages = WeightAverages(updater.network, config.optimisation)
        self.stopping = EarlyStopping(config.validation.patience)
        self.position = Position()
        self._pending: list[Update] = []
        self._window_started = time.monotonic()
        self._interrupted = False

    def interrupt(self) -> None:
        """End after the update that is under way, with a saved state."""
        self._interrupted = True

    def run(self) -> EndReason:
        """Train to the end.

        Raises:
            DivergenceError: If the loss or the gradient is no longer finite.
            TrainingError: If a state cannot be saved.
            CheckpointError: If a checkpoint cannot be written.
        """
        progress = Progress(self._config.run, self.position.step)
        try:
            if self.position.step == 0:
                self.save()
            while (reason := self._end_reason()) is None:
                self._advance(progress)
            self._conclude(reason, progress)
        finally:
            progress.close()
        return reason

    def _advance(self, progress: Progress) -> None:
        """One update, and what is due after it."""
        started = time.monotonic()
        batches = [next(self._batches) for _ in range(self._config.optimisation.accumulate)]
        step = self.position.step + 1
        update = self._updater.update(step, batches)
        self._averages.follow(step)
        self._pending.append(update)
        self.position.step = step
        self.position.epoch = self._batches.epoch
        self.position.tokens += update.num_tokens
        if self._hook is not None:
            self._hook(step, update)
        if step % self._config.run.log_every == 0:
            self._log(progress)
        if step % self._config.validation.every == 0:
            self._validate(progress)
        self.position.seconds += time.monotonic() - started
        if step % self._config.run.save_every == 0 or step % self._config.validation.every == 0:
            self._log(progress)
            self.save()

    def _end_reason(self) -> EndReason | None:
        run, position = self._config.run, self.position
        reasons: tuple[tuple[EndReason, bool], ...] = (
            ("interrupted", self._interrupted),
            ("early_stopping", self.stopping.exhausted),
            ("max_steps", 0 < run.max_steps <= position.step),
            ("max_minutes", 0 < run.max_minutes * 60 <= position.seconds),
            ("max_epochs", 0 < run.max_epochs <= position.epoch),
        )
        return next((reason for reason, applies in reasons if applies), None)

    def _conclude(self, reason: EndReason, progress: Progress) -> None:
        self._log(progress)
        if reason != "interrupted" and self.position.validated_step != self.position.step:
            self._validate(progress)
        self.save()

    def _log(self, progress: Progress) -> None:
        """Read what the pending updates measured; this is where the device is waited for."""
        if not self._pending:
            return
        losses, entropies, norms = (
            [float(getattr(update, name)) for update in self._pending]
            for name in ("loss", "cross_entropy", "gradient_norm")
        )
        self._check_finite(losses, norms)
        now = time.monotonic()
        count = len(self._pending)
        values = {
            "loss": sum(losses) / count,
            "cross_entropy": sum(entropies) / count,
            "gradient_norm": sum(norms) / count,
            "learning_rate": self._pending[-1].learning_rate,
            "tokens_per_second": sum(u.num_tokens for u in self._pending) / (now - self._window_started),
            "epoch": round(self.position.epoch, 4),
            "tokens": self.position.tokens,
        }
        self._pending.clear()
        self._window_started = now
        self._journal.record("update", self.position.step, values)
        progress.show(self.position.step, self.position.seconds / 60, self.position.epoch, values)

    def _check_finite(self, losses: list[float], norms: list[float]) -> None:
        first = self.position.step - len(losses) + 1
        scaled = self._config.run.precision == "float16"  # its scaler skips an overflow and goes on
        for step, loss, norm in zip(range(first, first + len(losses)), losses, norms, strict=True):
            if not math.isfinite(loss) or not (scaled or math.isfinite(norm)):
                last = self._shelf.last_good() or "none yet"
                raise DivergenceError(
                    f"training diverged at step {step}: loss {loss:g}, gradient norm {norm:g}; "
                    f"last good checkpoint: {last}; try a lower learning rate or a longer warm-up"
                )

    def _validate(self, progress: Progress) -> None:
        self._log(progress)
        step = self.position.step
        self._averages.take_snapshot()
        weights = self._averages.current()
        score = None
        if self._validator is not None:
            result = self._validator.validate(weights)
            score = result.score(self._config.validation.metric)
            self._journal.record("validation", step, {**result.to_dict(), "epoch": round(self.position.epoch, 4)})
            logger.info("step %d: %s", step, result.summary())
        is_best = score is not None and self.stopping.record(score)
        self._shelf.put(step, weights, score, is_best=is_best)
        self.position.validated_step = step
        self._window_started = time.monotonic()

    def save(self) -> None:
        """Save the run's state; what it holds is exactly what `resume` brings back."""
        random_tensors, random_values = capture_random_state()
        tensors = self._updater.state_tensors() | self._averages.state_tensors() | random_tensors
        values = {
            "position": vars(self.position),
            "data": self._batches.state_dict(),
            "random": random_values,
            "updater": self._updater.state_values(),
            "stopping": vars(self.stopping),
            "shelf": {str(step): score for step, score in self._shelf.scores.items()},
        }
        save_run_state(self._folder.state, RunState(self.position.step, tensors, values))

    def resume(self) -> None:
        """Go back to the saved state.

        Raises:
            TrainingError: If there is none or it cannot be read.
        """
        state = load_run_state(self._folder.state)
        tensors: dict[str, Tensor] = dict(state.tensors)
        values: dict[str, Any] = dict(state.values)
        self._updater.load_state(tensors, values["updater"])
        self._averages.load_tensors(tensors)
        self._batches.load_state_dict(values["data"])
        self.position = Position(**values["position"])
        self.stopping.best = values["stopping"]["best"]
        self.stopping.validations_since_best = values["stopping"]["validations_since_best"]
        self._shelf.scores = {int(step): score for step, score in values["shelf"].items()}
        self._journal.rewind(state.step)
        restore_random_state(tensors, values["random"])
