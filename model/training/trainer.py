"""ⓔ The optimisation loop: batches in, checkpoints out, at any moment ready to be killed and resumed."""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from torch import Tensor

from model.errors import DivergenceError, TrainingError
from model.training.config.train_config import TrainConfig
from model.training.data.batches import BatchStream
from model.training.distributed.world import ALONE, World
from model.training.report.log import Journal
from model.training.report.measurements import Measurements
from model.training.report.progress import Progress
from model.training.report.translations import KeptTranslations, Translations
from model.training.run_folder.checkpoint_retention import CheckpointShelf
from model.training.run_folder.folder import RunFolder
from model.training.run_folder.state import (
    RunState,
    capture_random_state,
    load_run_state,
    restore_random_state,
    save_run_state,
)
from model.training.step import Update, Updater
from model.training.validation import EarlyStopping, ValidationResult, Validator
from model.training.weight_averages import WeightAverages

logger = logging.getLogger(__name__)

EndReason = Literal["max_steps", "max_minutes", "max_epochs", "early_stopping", "interrupted"]
_END_REASONS: tuple[EndReason, ...] = get_args(EndReason)
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
        text: Fingerprints of what is trained and validated on, to be kept with the state.
        hook: Called after every update, for callers who want to watch or meddle.
        world: The processes that train together. All update, measure, validate and agree when to end; the
            first alone logs and saves.
        peak: Multiplications and additions a second that their devices could do.

    Attributes:
        position: How far it is.
        stopping: The scores' history, as far as it decides when to end.
    """

    def __init__(
        self,
        config: TrainConfig,
        updater: Updater,
        batches: BatchStream,
        *,
        validator: Validator | None,
        folder: RunFolder,
        shelf: CheckpointShelf,
        journal: Journal,
        text: Mapping[str, str],
        hook: Hook | None = None,
        world: World = ALONE,
        peak: float,
    ) -> None:
        self._config = config
        self._updater = updater
        self._batches = batches
        self._validator = validator
        self._folder = folder
        self._shelf = shelf
        self._journal = journal
        self._text = text
        self._hook = hook
        self._world = world
        self._kept_translations = KeptTranslations(folder.translations)
        self._averages = WeightAverages(updater.network, config.optimisation)
        overflows = config.run.precision == "float16"
        self._measurements = Measurements(forgives_overflow=overflows, peak=peak)
        self._progress = Progress(config.run, is_silent=not world.is_first)
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
        with self._progress:
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
        return reason

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
        """Whether something that is done every so many steps is to be done now."""
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
        update = self._updater.update(self.position.step, batches)
        self._averages.follow(self.position.step)
        self.position.epoch = self._batches.epochs
        self.position.tokens += update.num_tokens
        if self._hook is not None:
            self._hook(self.position.step, update)
        self._measurements.add(self.position.step, update, time.monotonic() - started)

    def _end_reason(self) -> EndReason | None:
        """Why to end now, in which all processes agree: each has a clock, and signals, of its own."""
        reason = self._own_end_reason()
        agreed = self._world.highest(-1 if reason is None else _END_REASONS.index(reason))
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
        """Note what the updates measured; always before anything is kept, so that no NaN is."""
        try:
            values = self._measurements.read()
            if check_weights:
                self._updater.require_finite_weights(self.position.step)
        except DivergenceError as error:
            kept = self._folder.good_checkpoint or "none yet"
            advice = "try a lower learning rate or a longer warm-up"
            raise DivergenceError(f"{error}; last good checkpoint: {kept}; {advice}") from error
        if values is not None and self._world.is_first:
            position = self.position
            reached = {
                "epoch": round(position.epoch, 4),
                "tokens": position.tokens,
                "seconds": round(position.seconds, 1),
            }
            self._journal.record("update", position.step, values | reached)
            self._progress.show(position.step, position.seconds / 60, position.epoch, values)

    def _validate(self) -> None:
        """Judge the weights, keep them if they deserve it, and save what came out.

        The state was saved before: a process that is killed meanwhile, as some are half a minute after they
        were asked to end, validates again when it resumes.
        """
        started = time.monotonic()
        position = self.position
        self._averages.take_snapshot()
        weights = self._averages.current()
        result = None if self._validator is None else self._validator.validate(weights)
        position.validated_step = position.step
        if self._world.is_first:
            self._keep(weights, result)
        position.seconds += time.monotonic() - started
        self.save()

    def _keep(self, weights: Mapping[str, Tensor], result: ValidationResult | None) -> None:
        step, score = self.position.step, None
        if result is not None:
            score = result.score(self._config.validation.metric)
            reached = {"epoch": round(self.position.epoch, 4)}
            values = result.to_dict(self._config.validation.samples)
            self._journal.record("validation", step, values | reached)
            logger.info("step %d: %s", step, result.summary())
        is_best = score is not None and self.stopping.record(score)
        if result is not None:
            self._kept_translations.keep(Translations(step, result.texts), is_best=is_best)
        self._shelf.put(step, weights, score, is_best=is_best)

    def save(self) -> None:
        """Save the run's state; what it holds is exactly what `resume` brings back.

        Raises:
            TrainingError: If it cannot be written; the one before is kept.
        """
        self._is_saved = True
        if not self._world.is_first:
            return
        random_tensors, random_values = capture_random_state()
        tensors = self._updater.state_tensors() | self._averages.state_tensors() | random_tensors
        values = {
            "position": vars(self.position),
            "text": dict(self._text),
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
            TrainingError: If there is none, it cannot be read, or it lacks something.
            CorpusError: If the data, or the order of the batches, is not as it was.
        """
        state = load_run_state(self._folder.state)
        try:
            self._take_up(dict(state.tensors), dict(state.values))
        except (KeyError, TypeError) as error:
            place = self._folder.state
            raise TrainingError(f"the run's state {place} is of another layout: {error}") from error
        if self._world.is_first:
            self._journal.rewind(state.step, self.position.validated_step)
            self._kept_translations.rewind(self.position.validated_step)

    def _take_up(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        self._updater.load_state(tensors, values["updater"])
        self._averages.load_tensors(tensors)
        self._batches.load_state_dict(values["data"])
        self.position = Position(**values["position"])
        self.stopping.best = values["stopping"]["best"]
        self.stopping.validations_since_best = values["stopping"]["validations_since_best"]
        self._shelf.scores = {int(step): score for step, score in values["shelf"].items()}
        restore_random_state(tensors, values["random"])
