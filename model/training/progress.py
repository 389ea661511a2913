"""ⓔ How far a run has come: a bar on a terminal, plain lines elsewhere."""

import logging
import sys
import time

from tqdm import tqdm

from model.training.run_config import RunConfig

logger = logging.getLogger(__name__)


def completed_share(limits: RunConfig, step: int, minutes: float, epoch: float) -> float:
    """Share of the run that is done, from 0 to 1: of several limits the one nearest to its end."""
    limited = ((step, limits.max_steps), (minutes, limits.max_minutes), (epoch, limits.max_epochs))
    return min(max((done / limit for done, limit in limited if limit), default=0.0), 1.0)


class Progress:
    """Shows steps, loss, learning rate, tokens a second and the time left.

    Args:
        limits: When the run ends.
        step: Where it begins.
    """

    def __init__(self, limits: RunConfig, step: int) -> None:
        self._limits = limits
        self._started = time.monotonic()
        self._share_at_start: float | None = None
        total = limits.max_steps or None
        self._bar = tqdm(total=total, initial=step, unit="step", disable=not sys.stderr.isatty())

    def show(self, step: int, minutes: float, epoch: float, values: dict[str, float]) -> None:
        """Show the latest figures; `values` as the journal has them."""
        share = completed_share(self._limits, step, minutes, epoch)
        figures = (
            f"loss {values['loss']:.3f}, rate {values['learning_rate']:.2e}, "
            f"{values['tokens_per_second']:,.0f} tokens/s, {self._time_left(share)} left"
        )
        if self._bar.disable:
            logger.info("step %d, epoch %.2f: %s", step, epoch, figures)
        else:
            self._bar.update(step - self._bar.n)
            self._bar.set_postfix_str(figures)

    def _time_left(self, share: float) -> str:
        if self._share_at_start is None:
            self._share_at_start = share
        gained = share - self._share_at_start
        if gained <= 0:
            return "?"
        seconds = (time.monotonic() - self._started) * (1 - share) / gained
        return f"{int(seconds) // 3600}:{int(seconds) // 60 % 60:02d}:{int(seconds) % 60:02d}"

    def close(self) -> None:
        """Leave the bar as it is."""
        self._bar.close()
