"""ⓔ Means over the recent updates, and the progress of a run on a terminal or in the log."""

import logging
import math
import sys
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from tqdm import tqdm
from tqdm.contrib.logging import logging_redirect_tqdm

from model.errors import DivergenceError
from model.training.config.run import RunConfig
from model.training.optimisation.step import Update

logger = logging.getLogger(__name__)


class Measurements:
    """Collects updates between two lines of the log; `read` alone waits for the device.

    Args:
        forgives_overflow: Whether an infinite gradient norm is allowed: float16's loss scaler skips such an
            update and lowers its scale.
        peak: Multiplications and additions per second that all devices reach together.
    """

    def __init__(self, *, forgives_overflow: bool, peak: float) -> None:
        self._forgives_overflow = forgives_overflow
        self._peak = peak
        self._updates: list[Update] = []
        self._first_step = 0
        self._seconds = 0.0

    def add(self, step: int, update: Update, seconds: float) -> None:
        """Add an update and the time since the previous one."""
        if not self._updates:
            self._first_step = step
        self._updates.append(update)
        self._seconds += seconds

    def read(self) -> dict[str, float] | None:
        """Means over the updates since the last call; None if there are none.

        Raises:
            DivergenceError: Naming the first step whose loss or gradient is not finite.
        """
        if not self._updates:
            return None
        started = time.monotonic()
        means = {
            name: self._mean([float(getattr(update, name)) for update in self._updates], name)
            for name in ("loss", "cross_entropy", "gradient_norm")
        }
        seconds = self._seconds + time.monotonic() - started
        num_tokens = sum(update.num_tokens for update in self._updates)
        num_positions = sum(update.num_positions for update in self._updates)
        operations = sum(update.operations for update in self._updates)
        rate = self._updates[-1].learning_rate
        self._updates, self._seconds = [], 0.0
        return {
            **means,
            "learning_rate": rate,
            "tokens_per_second": num_tokens / max(seconds, 1e-9),
            "padding_share": round(1 - num_tokens / num_positions, 4),
            "mfu": round(operations / max(seconds, 1e-9) / self._peak, 4),
        }

    def _mean(self, values: Sequence[float], name: str) -> float:
        for step, value in enumerate(values, start=self._first_step):
            if not math.isfinite(value) and not (self._forgives_overflow and name == "gradient_norm"):
                described = name.replace("_", " ")
                raise DivergenceError(f"training diverged at step {step}: the {described} is {value:g}")
        finite = [value for value in values if math.isfinite(value)]
        return sum(finite) / max(len(finite), 1)


def completed_share(limits: RunConfig, step: int, minutes: float, epoch: float) -> float:
    """Fraction of the run that is done, from 0 to 1, by the limit that is reached first."""
    limited = ((step, limits.max_steps), (minutes, limits.max_minutes), (epoch, limits.max_epochs))
    return min(max((done / limit for done, limit in limited if limit), default=0.0), 1.0)


def time_left(share_at_start: float, share: float, seconds: float) -> str:
    """Remaining time as h:mm:ss, extrapolated from the growth of the share; `?` if it has not grown."""
    if share <= share_at_start:
        return "?"
    left = int(seconds * (1 - share) / (share - share_at_start))
    return f"{left // 3600}:{left // 60 % 60:02d}:{left % 60:02d}"


class Progress:
    """Shows step, epoch, loss, learning rate, tokens per second and the time left.

    Args:
        limits: When the run ends.
    """

    def __init__(self, limits: RunConfig) -> None:
        self._limits = limits
        self._share_at_start: float | None = None
        self._started = 0.0
        hidden = sys.stderr is None or not sys.stderr.isatty()
        self._bar = tqdm(total=limits.max_steps or None, unit=" steps", disable=hidden)
        self._redirection = logging_redirect_tqdm()

    def __enter__(self) -> Self:
        self._redirection.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._redirection.__exit__(kind, error, trace)
        self._bar.close()

    def show(self, step: int, minutes: float, epoch: float, values: Mapping[str, float]) -> None:
        """Show the latest figures; `values` as the log has them."""
        share = completed_share(self._limits, step, minutes, epoch)
        if self._share_at_start is None:
            self._share_at_start, self._started = share, time.monotonic()
            self._bar.n = self._bar.initial = step  # the bar's speed ignores steps before a resumption
        left = time_left(self._share_at_start, share, time.monotonic() - self._started)
        figures = (
            f"loss {values['loss']:.3f}, rate {values['learning_rate']:.2e}, "
            f"{values['tokens_per_second']:,.0f} tokens/s, {left} left"
        )
        if self._bar.disable:
            logger.info("step %d, epoch %.2f: %s", step, epoch, figures)
        else:
            self._bar.update(step - self._bar.n)
            self._bar.set_postfix_str(f"epoch {epoch:.2f}, {figures}")
