"""Watches for engines that have work but make no step: then /livez fails, and the log has all stacks.

A stalled event loop needs no watchdog: /livez itself is not answered then.
"""

import asyncio
import faulthandler
import logging
import math
import sys
import time
from collections.abc import Sequence

from app.errors import EngineStuckError
from app.scheduling.engine_worker import EngineWorker
from app.telemetry.metrics import Metrics

logger = logging.getLogger(__name__)

_CHECKS_PER_PERIOD = 10
_MIN_PAUSE = 0.05


class Watchdog:
    """Watches the workers.

    Args:
        seconds: How long a step may take; 0 disables the limit, and only dead workers are noticed.
        metrics: Where stuck engines are counted.
    """

    def __init__(self, seconds: float, metrics: Metrics) -> None:
        self._seconds = seconds
        self._metrics = metrics
        self._workers: Sequence[EngineWorker] = ()
        self._stuck: set[EngineWorker] = set()

    def watch(self, workers: Sequence[EngineWorker]) -> None:
        """Watch these workers, and no others."""
        self._workers = workers
        self._stuck.intersection_update(workers)

    @property
    def is_healthy(self) -> bool:
        """Whether no worker was stuck at the last check."""
        return not self._stuck

    def require_progress(self) -> None:
        """Check all workers.

        Raises:
            EngineStuckError: While an engine is stuck.
        """
        self.check()
        if self._stuck:
            raise EngineStuckError

    def check(self) -> None:
        """Find the workers that are stuck now; each is logged and counted once."""
        latest = time.monotonic() - (self._seconds or math.inf)
        stuck = {worker for worker in self._workers if _is_silent(worker, latest)}
        for worker in stuck - self._stuck:
            self._metrics.count_stuck_engine()
            logger.error("engine stuck", extra={"worker": worker.name, "seconds": self._seconds})
        for worker in self._stuck - stuck:
            logger.warning("engine goes on", extra={"worker": worker.name})
        if stuck - self._stuck:
            # It writes files, lines and functions, and takes no lock that a stuck thread may hold.
            faulthandler.dump_traceback(file=sys.stderr, all_threads=True)
        self._stuck = stuck

    async def run(self) -> None:
        """Check regularly, until cancelled."""
        while self._seconds:
            self.check()
            await asyncio.sleep(max(self._seconds / _CHECKS_PER_PERIOD, _MIN_PAUSE))


def _is_silent(worker: EngineWorker, latest: float) -> bool:
    since = worker.silent_since()
    return since is not None and (since < latest or since == -math.inf)
