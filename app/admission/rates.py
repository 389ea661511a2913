"""① Rate limits: the requests of one client within a sliding window of time."""

import math
import re
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from app.errors import RateExceededError

if TYPE_CHECKING:
    from pyrate_limiter import InMemoryBucket

_RATE: Final = re.compile(r"([1-9]\d{0,5})\s*(?:/|per)\s*([1-9]\d{0,3})?\s*(second|minute|hour|day)s?")
_SECONDS: Final = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400}
_FEW_CLIENTS: Final = 256


def parse_rate(text: str) -> tuple[int, int] | None:
    """Parse a rate.

    Args:
        text: Such as `100/minute` or `5 per 10 seconds`.

    Returns:
        Requests, and the seconds in which they are allowed; None if the text is not a rate.
    """
    match = _RATE.fullmatch(text.strip().lower())
    if match is None:
        return None
    return int(match[1]), int(match[2] or 1) * _SECONDS[match[3]]


class RateLimit:
    """Limits the requests of each client within any window of time.

    Args:
        rate: Such as `100/minute`; None sets no limit.
        clock: Seconds; never goes back, even if the time of day does.
    """

    def __init__(self, rate: str | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # Of the clients with recent requests; times are whole milliseconds.
        self._windows: dict[str, InMemoryBucket] = {}
        self._sweep_at = _FEW_CLIENTS
        self._new_window: Callable[[], InMemoryBucket] | None = None
        if rate and (parsed := parse_rate(rate)) is not None:
            # The import takes a tenth of the time to start, and most services set no limit.
            import pyrate_limiter

            requests, seconds = parsed
            self._request_at = partial(pyrate_limiter.RateItem, "")
            self._new_window = partial(
                pyrate_limiter.InMemoryBucket, [pyrate_limiter.Rate(requests, seconds * 1000)]
            )

    def charge(self, client: str) -> None:
        """Count one request of a client.

        Raises:
            RateExceededError: If the client is over its rate; the request is not counted then.
        """
        if self._new_window is None:
            return
        now = int(self._clock() * 1000)
        window = self._windows.get(client)
        if window is None:
            self._sweep(now)
            window = self._windows[client] = self._new_window()
        window.leak(now)
        if not window.put(request := self._request_at(now)):
            wait = cast(int, window.waiting(request))
            raise RateExceededError(max(1, math.ceil(wait / 1000)))

    def _sweep(self, now: int) -> None:
        """Forget clients whose last request has left its window, whenever there may be many of them."""
        if len(self._windows) < self._sweep_at:
            return
        for window in self._windows.values():
            window.leak(now)
        self._windows = {client: window for client, window in self._windows.items() if window.count()}
        self._sweep_at = max(2 * len(self._windows), _FEW_CLIENTS)
