"""ⓔ The learning rate of each step: a warm-up, then one of four curves. No torch."""

import logging
import math
from dataclasses import dataclass

from model.training.config.optimisation import ScheduleConfig
from model.validators import require

logger = logging.getLogger(__name__)

# A learning rate meant for another form makes Noam's curve about a thousand times too low.
_LOWEST_NOAM_FACTOR = 0.02


@dataclass(frozen=True)
class Schedule:
    """A pure function from the step to the learning rate; it has no state to save.

    Args:
        config: The curve.
        peak: Rate at the end of the warm-up (for `noam` the factor).
        model_dim: Width of the network, for `noam`.
        max_steps: Length of the run, for `cosine`; 0 if it has no fixed length.

    Raises:
        ConfigError: If a cosine has no end, or ends within the warm-up.
    """

    config: ScheduleConfig
    peak: float
    model_dim: int
    max_steps: int = 0

    def __post_init__(self) -> None:
        if self.config.form == "cosine":
            requirement = "above schedule.warmup_steps for a cosine (or give run.max_steps)"
            ends_later = self.total_steps > self.config.warmup_steps
            require(ends_later, "schedule.total_steps", requirement, self.total_steps)

    def warn(self) -> None:
        """Log a warning if the learning rate was probably meant for another form."""
        if self.config.form == "noam" and self.peak < _LOWEST_NOAM_FACTOR:
            highest = self.rate(self.config.warmup_steps)
            logger.warning(
                "the learning rate never exceeds %.1e: with schedule.form noam, optimisation.learning_rate is"
                " a factor, 1 in the paper, but is %g",
                highest,
                self.peak,
            )

    @property
    def total_steps(self) -> int:
        """The step at which the cosine ends."""
        return self.config.total_steps or self.max_steps

    def rate(self, step: int) -> float:
        """Learning rate of a step, counted from 1."""
        warmup = self.config.warmup_steps
        if self.config.form == "noam":
            return float(self.peak * self.model_dim**-0.5 * min(step**-0.5, step * warmup**-1.5))
        if step < warmup:
            return self.peak * step / warmup
        if self.config.form == "inverse_sqrt":
            return self.peak * math.sqrt(max(warmup, 1) / step)
        return self._cosine(step) if self.config.form == "cosine" else self.peak

    def _cosine(self, step: int) -> float:
        warmup = self.config.warmup_steps
        progress = min((step - warmup) / (self.total_steps - warmup), 1.0)
        height = (1 + math.cos(math.pi * progress)) / 2
        return self.peak * (self.config.minimum_ratio + (1 - self.config.minimum_ratio) * height)
