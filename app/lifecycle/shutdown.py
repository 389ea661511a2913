"""How the process ends: not ready; refuse new work; answer what was accepted; close; status 0.

SIGTERM or SIGINT   begins it; it is over when nothing is in flight, or after DRAIN_SECONDS
the second one      refuses what is in flight too, with an answer; that is over within a second
the third one       closes every connection as it is
"""

import time
from collections.abc import Callable
from typing import Final

from app.lifecycle.phase import Lifecycle

# Load balancers look at /readyz about once a second: they must see the refusal before the socket closes.
_NOTICE_SECONDS: Final = 1.0
# `make` passes on a signal that its whole process group has been sent: the two are one.
_ECHO_SECONDS: Final = 0.2
# What is refused gets this long to be told so where it can be told best, for instance within a stream.
_WORK_SECONDS: Final = 0.2
_CUT_SECONDS: Final = 0.8


class Shutdown:
    """Decides when to stop listening; on the event loop, save for `ask`.

    Args:
        lifecycle: Is told to drain, and to refuse what is in flight.
        drain_seconds: How long what was accepted may take.
        clock: Seconds that never go back.
    """

    def __init__(
        self, lifecycle: Lifecycle, drain_seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._lifecycle = lifecycle
        self._drain_seconds = drain_seconds
        self._clock = clock
        self._began: float | None = None
        self._asked_again: float | None = None
        self._cut: float | None = None
        self._is_rest_refused = False

    @property
    def is_urgent(self) -> bool:
        """Whether what is in flight is no longer waited for."""
        return self._asked_again is not None or self._cut is not None

    def ask(self) -> bool:
        """Somebody wants the process to end.

        Returns:
            Whether even refusals are too slow for them.
        """
        now = self._clock()
        if self._began is None:
            self._began = now
            self._lifecycle.drain()
        elif self._asked_again is None:
            if now - self._began >= _ECHO_SECONDS:
                self._asked_again = now
        else:
            return now - self._asked_again >= _ECHO_SECONDS
        return False

    def is_over(self) -> bool:
        """Whether to stop listening; to be asked several times a second."""
        if self._began is None:
            return False
        elapsed = self._clock() - self._began
        if self._cut is None and (self._asked_again is not None or elapsed >= self._drain_seconds):
            self._cut = self._clock()
            self._lifecycle.cancel_work()
        if self._cut is not None:
            return self._is_cut_short(self._clock() - self._cut)
        return self._lifecycle.unfinished == 0 and elapsed >= _NOTICE_SECONDS

    def _is_cut_short(self, elapsed: float) -> bool:
        if elapsed >= _WORK_SECONDS and not self._is_rest_refused:
            # Only once: a second time would interrupt the refusal itself.
            self._is_rest_refused = True
            self._lifecycle.cancel_requests()
        return self._lifecycle.unfinished == 0 or elapsed >= _CUT_SECONDS
