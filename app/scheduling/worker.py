"""④ → ⑤ One thread that drives one engine of each checkpoint, those that have work in turn."""

import logging
import math
import threading
import time
from collections.abc import Mapping
from typing import Protocol

from app.scheduling.backlog import Job
from app.scheduling.driver import Driver, Turn
from app.scheduling.exchange import Exchange

logger = logging.getLogger(__name__)


class Reports(Protocol):
    """Who hears from the workers, on their threads."""

    def taken(self, job: Job) -> None:
        """A sentence left the backlog for an engine."""

    def advanced(self, turn: Turn, seconds: float) -> None:
        """An engine did a turn in so many seconds."""


class Worker:
    """Owns a thread. Between two turns it drops what nobody wants, takes what fits, hands back what is done.

    Args:
        name: Of the thread.
        drivers: By checkpoint.
        exchange: Where sentences come from.
        reports: Where they go to.
    """

    def __init__(
        self, name: str, drivers: Mapping[str, Driver], exchange: Exchange, reports: Reports
    ) -> None:
        self._drivers = drivers
        self._exchange = exchange
        self._reports = reports
        self._desk = exchange.desk(self._interrupt)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._has_ended = False
        self._silent_since: float | None = None

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()

    def join(self, seconds: float | None = None) -> bool:
        """Wait for the thread to end, at most this long if that is given.

        Returns:
            Whether it has, or has never begun.
        """
        if self._thread.ident is not None:
            self._thread.join(seconds)
        return not self._thread.is_alive()

    @property
    def name(self) -> str:
        """Of the thread."""
        return self._thread.name

    def silent_since(self) -> float | None:
        """See Pulse in `app.health.watchdog`."""
        has_died = self._thread.ident is not None and not (self._thread.is_alive() or self._has_ended)
        return -math.inf if has_died else self._silent_since

    def _interrupt(self) -> None:
        for driver in self._drivers.values():
            driver.interrupt()

    def _run(self) -> None:
        try:
            self._work()
        except Exception as fault:
            # The watchdog tells of it too; a traceback of the thread's own would show what somebody sent.
            logger.error("worker died", extra={"worker": self.name}, exc_info=fault)
        else:
            self._silent_since, self._has_ended = None, True

    def _work(self) -> None:
        while (withdrawn := self._wait()) is not None:
            for job in withdrawn:
                self._drivers[job.model].drop(job)
            for model, driver in self._drivers.items():
                self._take(model, driver)
            for driver in self._drivers.values():
                if not driver.is_idle:
                    self._advance(driver)

    def _wait(self) -> list[Job] | None:
        self._silent_since = None
        withdrawn = self._exchange.wait(self._desk)
        self._silent_since = time.monotonic()
        return withdrawn

    def _take(self, model: str, driver: Driver) -> None:
        while (job := self._exchange.take(self._desk, model, driver.fits)) is not None:
            self._reports.taken(job)
            driver.add(job)

    def _advance(self, driver: Driver) -> None:
        self._silent_since = began = time.monotonic()
        turn = driver.advance()
        self._exchange.finish(job for job, _ in turn.finished)
        self._reports.advanced(turn, time.monotonic() - began)
