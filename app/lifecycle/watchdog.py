"""Notices an engine that has work and makes no step: liveness fails, and all stacks are on standard error.

An event loop that stalls needs no watching: then /livez itself is not answered.
"""

import asyncio
import faulthandler
import logging
import math
import sys
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from app.errors import EngineStuckError
from app.telemetry.metrics import Metrics

logger = logging.getLogger(__name__)

_LOOKS_IN_TIME = 10
_LEAST_PAUSE = 0.05


class WatchedWorker(Protocol):
    """A worker, as the watchdog sees it."""

    @property
    def name(self) -> str:
        """Of its thread."""

    def silent_since(self) -> float | None:
        """When it last made a step, seconds of the monotonic clock; minus infinity once it has died.

        None while it has nothing to do.
        """


class Watchdog:
    """Looks after the workers of every service that still has requests.

    Args:
        seconds: How long a step may take; with 0 for ever, and only who died is noticed.
        metrics: Where engines that were found stuck are counted.
        dump: Writes the stacks of all threads: places only, nothing of a request.
    """

    def __init__(self, seconds: float, metrics: Metrics, dump: Callable[[], None] | None = None) -> None:
        self._seconds = seconds
        self._metrics = metrics
        self._dump = dump or _dump_stacks
        self._watched: list[Sequence[WatchedWorker]] = []
        self._stuck: set[WatchedWorker] = set()

    def watch(self, workers: Sequence[WatchedWorker]) -> None:
        """Look after these workers too."""
        self._watched.append(workers)

    def forget(self, workers: Sequence[WatchedWorker]) -> None:
        """They have ended as they should."""
        self._watched.remove(workers)
        self._stuck.difference_update(workers)

    @property
    def is_healthy(self) -> bool:
        """Whether nobody was stuck at the last look."""
        return not self._stuck

    def require_progress(self) -> None:
        """Refuse while an engine is stuck.

        Raises:
            EngineStuckError: Until it goes on.
        """
        self.look()
        if self._stuck:
            raise EngineStuckError

    def look(self) -> None:
        """Find out who is stuck now; whoever was not before is told of, once."""
        latest = time.monotonic() - (self._seconds or math.inf)
        workers = [worker for each in self._watched for worker in each]
        stuck = {worker for worker in workers if _is_silent(worker, latest)}
        for worker in stuck - self._stuck:
            self._metrics.count_stuck_engine()
            logger.error("engine stuck", extra={"worker": worker.name, "seconds": self._seconds})
        for worker in self._stuck - stuck:
            logger.warning("engine goes on", extra={"worker": worker.name})
        if stuck - self._stuck:
            self._dump()
        self._stuck = stuck

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        while self._seconds:
            self.look()
            await asyncio.sleep(max(self._seconds / _LOOKS_IN_TIME, _LEAST_PAUSE))


def _is_silent(worker: WatchedWorker, latest: float) -> bool:
    since = worker.silent_since()
    return since is not None and (since < latest or since == -math.inf)


def _dump_stacks() -> None:
    # It writes files, lines and functions, and takes no lock that a stuck thread may hold.
    faulthandler.dump_traceback(file=sys.stderr, all_threads=True)
