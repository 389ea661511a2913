"""How often one client may ask."""

import math
import time

from app.errors import RateExceededError


class RateLimit:
    """At most so many requests of one client within any window of time.

    Args:
        rate: E.g. `100/minute`; None sets no limit.
    """

    def __init__(self, rate: str | None) -> None:
        self._window = _Window(rate) if rate else None

    async def charge(self, client: str) -> None:
        """Count one request of a client.

        Raises:
            RateExceededError: If it is one too many; it is not counted then.
        """
        if self._window is not None:
            await self._window.charge(client)


class _Window:
    def __init__(self, rate: str) -> None:
        # Importing it takes as long as a tenth of a whole start, and most services set no limit.
        from limits import parse
        from limits.aio.storage import MemoryStorage
        from limits.aio.strategies import MovingWindowRateLimiter

        self._rate = parse(rate)
        self._limiter = MovingWindowRateLimiter(MemoryStorage())

    async def charge(self, client: str) -> None:
        if await self._limiter.hit(self._rate, client):
            return
        stats = await self._limiter.get_window_stats(self._rate, client)
        raise RateExceededError(max(1, math.ceil(stats.reset_time - time.time())))
