"""The learning rate of each step: a warm-up, then one of four curves. No torch."""

import logging
import math
from dataclasses import dataclass

from model.training.config_sections import RunConfig, ScheduleConfig
from model.validators import require

logger = logging.getLogger(__name__)

# A learning rate meant for another form makes Noam's curve about a thousand times too low.
_LOWEST_NOAM_FACTOR = 0.02


@dataclass(frozen=True)
class Schedule:
    """A pure function from the step, and the share of the run that is done, to the learning rate.

    Args:
        config: The curve.
        peak: Rate at the end of the warm-up (for `noam` the factor).
        model_dim: Width of the network, for `noam`.
        run: The limits of the run. A cosine without an end of its own ends at `max_steps`, or if that is 0 at
            the first other limit.

    Raises:
        ConfigError: If a cosine ends within the warm-up.
    """

    config: ScheduleConfig
    peak: float
    model_dim: int
    run: RunConfig

    def __post_init__(self) -> None:
        if self.config.form == "cosine" and self.total_steps:
            warmup = self.config.warmup_steps
            name = "schedule.total_steps" if self.config.total_steps else "run.max_steps"
            requirement = f"above schedule.warmup_steps for a cosine, which is {warmup}"
            require(self.total_steps > warmup, name, requirement, self.total_steps)

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
        """The step at which the cosine ends; 0 if time or epochs end it."""
        return self.config.total_steps or self.run.max_steps

    @property
    def follows_time(self) -> bool:
        """Returns whether the rate depends on the minutes that have passed."""
        return self.config.form == "cosine" and not self.total_steps and self.run.max_minutes > 0

    def rate(self, step: int, *, minutes: float = 0.0, epoch: float = 0.0) -> float:
        """Learning rate of a step.

        Args:
            step: Counted from 1.
            minutes: Minutes of training before it.
            epoch: Passes over the data before it.
        """
        warmup = self.config.warmup_steps
        if self.config.form == "noam":
            return float(self.peak * self.model_dim**-0.5 * min(step**-0.5, step * warmup**-1.5))
        if step < warmup:
            return self.peak * step / warmup
        if self.config.form == "inverse_sqrt":
            return self.peak * math.sqrt(max(warmup, 1) / step)
        return self._cosine(step, minutes, epoch) if self.config.form == "cosine" else self.peak

    def _cosine(self, step: int, minutes: float, epoch: float) -> float:
        warmup = self.config.warmup_steps
        if self.total_steps:
            share = (step - warmup) / (self.total_steps - warmup)
        else:
            limits = ((minutes, self.run.max_minutes), (epoch, self.run.max_epochs))
            share = max(done / limit for done, limit in limits if limit)
        progress = min(share, 1.0)
        height = (1 + math.cos(math.pi * progress)) / 2
        return self.peak * (self.config.minimum_ratio + (1 - self.config.minimum_ratio) * height)
