"""ⓔ The learning rate of each step: a warm-up, then one of four curves. No torch."""

import logging
import math
from dataclasses import dataclass
from typing import Literal

import pydantic

from model.training.config.fields import STRICT, Count, Share
from model.validators import require

logger = logging.getLogger(__name__)

ScheduleForm = Literal["inverse_sqrt", "noam", "cosine", "constant"]
# A learning rate meant for another form makes Noam's curve about a thousand times too low.
_LOWEST_NOAM_FACTOR = 0.02


@pydantic.dataclasses.dataclass(frozen=True, kw_only=True, config=STRICT)
class ScheduleConfig:
    """How the learning rate changes from step to step (s, counted from 1; w: warm-up steps).

    Attributes:
        form: `inverse_sqrt`: peak × sqrt(w / s); `noam`: factor × model_dim^−½ × min(s^−½, s × w^−1.5)
            (Vaswani et al. 2017, eq. 3), where optimisation.learning_rate is the factor;
            `cosine`: from the peak down to minimum_ratio × peak at total_steps; `constant`: the peak.
        warmup_steps: Steps over which the rate rises linearly from 0.
        total_steps: End of the cosine; 0 takes run.max_steps.
        minimum_ratio: Floor of the cosine, as a share of the peak.
    """

    form: ScheduleForm = "inverse_sqrt"
    warmup_steps: Count = 1000
    total_steps: Count = 0
    minimum_ratio: Share = 0.1

    def __post_init__(self) -> None:
        warms_up = self.form != "noam" or self.warmup_steps > 0
        require(warms_up, "warmup_steps", "at least 1 for noam", self.warmup_steps)


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
