"""ⓔ The optimisation loop: batches in, checkpoints out; it can be killed and resumed at any moment."""

import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Literal, get_args

from torch import Tensor

from model.checkpoint.manifest import good_checkpoint
from model.errors import DivergenceError, TrainingError
from model.training.data.batches import BatchStream
from model.training.distributed.world import SINGLE_PROCESS, World
from model.training.optimisation.measurements import Measurements, Update
from model.training.optimisation.optimiser import WeightAverages
from model.training.optimisation.step import Updater
from model.training.run_folder.folder import RunFolder
from model.training.run_folder.state import (
    Position,
    capture_random_state,
    load_run_state,
    restore_random_state,
)
from model.training.run_folder.writer import RunWriter
from model.training.train_config import TrainConfig
from model.training.validation import EarlyStopping, Validator

EndReason = Literal["max_steps", "max_minutes", "max_epochs", "early_stopping", "interrupted"]
_END_REASONS: tuple[EndReason, ...] = get_args(EndReason)
Hook = Callable[[int, Update], None]


class Trainer:
    """Updates, validates and saves until the run ends.

    Args:
        config: The run's configuration.
        updater: Network and optimiser.
        batches: Batches to train on.
        validator: None if there is no held-out text.
        writer: Writes into the run's folder; None in all processes except the first.
        hook: Function that is called after every update.
        world: The processes that train together. All of them update, measure and validate, and they agree on
            when to end.
        peak: Multiplications and additions per second that their devices reach together.

    Attributes:
        position: How far the run is.
        stopping: Decides whether scores still rise.
    """

    def __init__(
        self,
        config: TrainConfig,
        updater: Updater,
        batches: BatchStream,
        *,
        validator: Validator | None,
        writer: RunWriter | None,
        hook: Hook | None = None,
        world: World = SINGLE_PROCESS,
        peak: float,
    ) -> None:
        self._config = config
        self._updater = updater
        self._batches = batches
        self._validator = validator
        self._writer = writer
        self._hook = hook
        self._world = world
        self._averages = WeightAverages(updater.network, config.optimisation)
        overflows = config.run.precision == "float16"
        self._measurements = Measurements(forgives_overflow=overflows, peak=peak)
        self._interrupted = False
        self._is_saved = False
        self.stopping = EarlyStopping(config.validation.patience)
        self.position = Position()

    def interrupt(self) -> None:
        """End after the update that is under way, with a saved state."""
        self._interrupted = True

    def run(self) -> EndReason:
        """Train to the end.

        Raises:
            DivergenceError: If the loss or the gradient is no longer finite; what was saved before is kept.
            TrainingError: If a state cannot be saved.
            CheckpointError: If a checkpoint cannot be written.
        """
        with nullcontext() if self._writer is None else self._writer.progress.shown():
            if self.position.step == 0:
                self.save()
            elif self._is_due(self._config.validation.every) and not self._is_validated:
                self._validate()
            while (reason := self._end_reason()) is None:
                self._advance()
            self._log(check_weights=True)
            if not self._is_saved:
                self.save()
            if reason != "interrupted" and not self._is_validated:
                self._validate()
            self._wait_for_writes()
        return reason

    def _wait_for_writes(self) -> None:
        if self._writer is not None:
            self._writer.wait()

    def _advance(self) -> None:
        """One update, and what is due after it."""
        started = time.monotonic()
        self._update()
        due_for_validation = self._is_due(self._config.validation.every)
        due_for_saving = due_for_validation or self._is_due(self._config.run.save_every)
        if due_for_saving or self._is_due(self._config.run.log_every):
            self._log(check_weights=due_for_saving)
        self.position.seconds += time.monotonic() - started
        if due_for_saving:
            self.save()
        if due_for_validation:
            self._validate()

    def _is_due(self, interval: int) -> bool:
        """Returns whether something that is done every so many steps is to be done now."""
        return self.position.step % interval == 0

    @property
    def _is_validated(self) -> bool:
        return self.position.validated_step == self.position.step

    def _update(self) -> None:
        started = time.monotonic()
        self._world.seed_update(self._config.run.seed, self.position.step + 1)
        batches = [next(self._batches) for _ in range(self._config.optimisation.accumulate)]
        self.position.step += 1
        self._is_saved = False
        update = self._updater.update(
            self.position.step, batches, minutes=self._minutes(), epoch=self.position.epoch
        )
        self._averages.follow(self.position.step)
        self.position.epoch = self._batches.epochs
        self.position.tokens += update.num_tokens
        if self._hook is not None:
            self._hook(self.position.step, update)
        self._measurements.add(self.position.step, update, time.monotonic() - started)

    def _minutes(self) -> float:
        """Minutes of training so far; equal in all processes if the learning rate depends on them."""
        if not self._updater.schedule.follows_time:
            return self.position.seconds / 60
        return self._world.all_max(round(self.position.seconds)) / 60

    def _end_reason(self) -> EndReason | None:
        """The reason to end now, which the processes agree on: each has its own clock and signals."""
        reason = self._own_end_reason()
        agreed = self._world.all_max(-1 if reason is None else _END_REASONS.index(reason))
        return None if agreed < 0 else _END_REASONS[agreed]

    def _own_end_reason(self) -> EndReason | None:
        run, position = self._config.run, self.position
        reasons: tuple[tuple[EndReason, bool], ...] = (
            ("interrupted", self._interrupted),
            ("early_stopping", self.stopping.exhausted),
            ("max_steps", 0 < run.max_steps <= position.step),
            ("max_minutes", 0 < run.max_minutes * 60 <= position.seconds),
            ("max_epochs", 0 < run.max_epochs <= position.epoch),
        )
        return next((reason for reason, applies in reasons if applies), None)

    def _log(self, *, check_weights: bool) -> None:
        """Log what the updates measured; called before anything is saved, so that no NaN is saved."""
        try:
            values = self._measurements.read()
            if check_weights:
                self._updater.require_finite_weights(self.position.step)
        except DivergenceError as error:
            self._wait_for_writes()
            kept = good_checkpoint(self._folder.root) or "none yet"
            advice = "try a lower learning rate or a longer warm-up"
            raise DivergenceError(f"{error}; last good checkpoint: {kept}; {advice}") from error
        if values is not None and self._writer is not None:
            self._writer.write_update(self.position, values)

    @property
    def _folder(self) -> RunFolder:
        return RunFolder(Path(self._config.run.folder))

    def _validate(self) -> None:
        """Validate the weights, write their checkpoints, and save the state.

        The state was also saved before the validation, because a process that is asked to end may be killed
        half a minute later: the resumed run then repeats the validation.
        """
        started = time.monotonic()
        self._averages.take_snapshot()
        weights = self._averages.current()
        result = None if self._validator is None else self._validator.validate(weights)
        self.position.validated_step = self.position.step
        if self._writer is not None:
            metric = self._config.validation.metric
            is_best = result is not None and self.stopping.record(result.score(metric))
            self._writer.write_validation(self.position, weights, result, is_best=is_best)
        self.position.seconds += time.monotonic() - started
        self.save()

    def save(self) -> None:
        """Save everything that `resume` restores; it is written while training continues.

        Raises:
            TrainingError: If an earlier state cannot be written; the one before it is kept.
        """
        self._is_saved = True
        if self._writer is None:
            return
        random_tensors, random_values = capture_random_state()
        tensors = self._updater.state_tensors() | self._averages.state_tensors() | random_tensors
        values = {
            "position": vars(self.position),
            "data": self._batches.state_dict(),
            "random": random_values,
            "updater": self._updater.state_values(),
            "stopping": vars(self.stopping),
        }
        self._writer.save_state(self.position.step, tensors, values)

    def resume(self) -> None:
        """Restore the saved state.

        Raises:
            TrainingError: If there is none, it cannot be read, or it lacks something.
            CorpusError: If the data, or the order of the batches, has changed.
        """
        step, tensors, values = load_run_state(self._folder.state)
        try:
            self._restore(tensors, values)
            if self._writer is not None:
                self._writer.resume(step, self.position.validated_step, values)
        except (KeyError, TypeError) as error:
            place = self._folder.state
            raise TrainingError(f"the run's state {place} is of another layout: {error}") from error

    def _restore(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        self._updater.load_state(tensors, values["updater"])
        self._averages.load_tensors(tensors)
        self._batches.load_state_dict(values["data"])
        self.position = Position(**values["position"])
        self.stopping.best = values["stopping"]["best"]
        self.stopping.validations_since_best = values["stopping"]["validations_since_best"]
        restore_random_state(tensors, values["random"])
