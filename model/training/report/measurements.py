"""ⓔ Means over the recent updates, read from the device at once."""

import math
import time
from collections.abc import Sequence

from model.errors import DivergenceError
from model.training.step import Update


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
