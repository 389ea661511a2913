"""① Rate limits: the requests of one client within a sliding window of time."""

import math
import re
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from app.errors import RateExceededError

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
        self._rate = parse_rate(rate) if rate else None
        self._clock = clock
        # When each client sent its last requests, the oldest first; none is empty.
        self._windows: dict[str, deque[float]] = {}
        self._sweep_at = _FEW_CLIENTS

    def charge(self, client: str) -> None:
        """Count one request of a client.

        Raises:
            RateExceededError: If the client is over its rate; the request is not counted then.
        """
        if self._rate is None:
            return
        requests, seconds = self._rate
        now = self._clock()
        window = self._windows.get(client)
        if window is None:
            self._sweep(now - seconds)
            window = self._windows[client] = deque()
        while window and window[0] <= now - seconds:
            window.popleft()
        if len(window) == requests:
            raise RateExceededError(max(1, math.ceil(window[0] + seconds - now)))
        window.append(now)

    def _sweep(self, begin: float) -> None:
        """Forget clients without a request since the window began, whenever there may be many of them."""
        if len(self._windows) >= self._sweep_at:
            self._windows = {client: window for client, window in self._windows.items() if window[-1] > begin}
            self._sweep_at = max(2 * len(self._windows), _FEW_CLIENTS)
