"""ⓔ Progress of a run: a bar on a terminal, else lines of the log."""

import logging
import sys
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from tqdm import tqdm
from tqdm.contrib.logging import logging_redirect_tqdm

from model.training.config.run import RunConfig

logger = logging.getLogger(__name__)


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
