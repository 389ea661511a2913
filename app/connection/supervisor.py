"""The supervisor of several service processes on one port.

It binds the port, starts the processes, replaces those that end, forwards signals, and decides reloads. It
serves nothing itself and loads no model. The processes inherit the listening socket, so connections that wait
in its queue survive the end of a process.
"""

import gc
import logging
import os
import pickle
import signal
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NoReturn

from app.connection.listening import Listener, listen, url_of
from app.lifecycle.phase import has_terminal
from app.lifecycle.processes import ProcessTable, ServiceProcess, State
from app.settings import Settings
from app.telemetry.logs import describe_failure, set_up_logs
from model.errors import ConfigError, TranslationError

logger = logging.getLogger(__name__)

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)
_TICK_SECONDS: Final = 0.1
_LOADING_TICK_SECONDS: Final = 0.02
# Starts in a row that may fail while no process serves.
_MAX_FAILURES: Final = 5
_FIRST_PAUSE_SECONDS: Final = 0.5
_LONGEST_PAUSE_SECONDS: Final = 60.0
# A process that was told to end may take so much longer than DRAIN_SECONDS.
_GRACE_SECONDS: Final = 15.0

Serve = Callable[[Settings, ServiceProcess, Listener], None]
"""Serves in a process of its own until a signal ends it; raises why it cannot."""


@dataclass
class _Child:
    """A process, or the place of one that is to be started.

    Attributes:
        index: Its number.
        pid: Its id; 0 if it does not run.
        failures: How often in a row it ended before it served.
        start_at: When it may be started, seconds of the monotonic clock.
        kill_at: When it is killed if it has not ended by then; None unless it was told to end.
    """

    index: int
    pid: int = 0
    failures: int = 0
    start_at: float = 0.0
    kill_at: float | None = None


@dataclass
class Supervisor:
    """Runs `serve` in each of several processes.

    Args:
        settings: The settings of the service.
        table: What the processes share.
        listener: Accepts connections, in the processes only.
        serve: What each process does.
    """

    settings: Settings
    table: ProcessTable
    listener: Listener
    serve: Serve
    _children: list[_Child] = field(init=False)
    _is_ending: bool = False
    _status: int = 0
    _failure: Exception | None = None

    def __post_init__(self) -> None:
        self._children = [_Child(index) for index in range(self.table.count)]

    def run(self) -> int:
        """Run the processes until a signal ends them.

        Returns:
            The exit status.

        Raises:
            TranslationError: If the first start fails, or later starts fail repeatedly.
        """
        had_terminal = has_terminal()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        try:
            while not self._has_ended():
                self._start_due()
                received = signal.sigtimedwait(_SIGNALS, self._tick_seconds())
                if received is not None:
                    self._handle(signal.Signals(received.si_signo), had_terminal)
                self._reap()
                self._watch()
                self.table.decide()
                self.table.weights.answer()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if self._failure is not None:
            raise self._failure
        return self._status

    def _has_ended(self) -> bool:
        return self._is_ending and not any(child.pid for child in self._children)

    def _tick_seconds(self) -> float:
        """Returns the seconds to wait for a signal; fewer while a process loads, which waits for answers."""
        is_loading = any(self.table.is_loading(child.index) for child in self._children)
        return _LOADING_TICK_SECONDS if is_loading else _TICK_SECONDS

    # Starting

    def _start_due(self) -> None:
        now = time.monotonic()
        for child in self._children:
            if not self._is_ending and child.pid == 0 and now >= child.start_at:
                self._start(child)

    def _start(self, child: _Child) -> None:
        self.table.begin(child.index)
        # Otherwise the first collection in the child copies every page of objects.
        gc.freeze()
        pid = os.fork()
        if pid == 0:
            self._run_child(child.index)
        child.pid, child.kill_at = pid, None
        logger.info("process started", extra={"process_index": child.index, "pid": pid})

    def _run_child(self, index: int) -> NoReturn:
        status = 1
        try:
            # Signals of the terminal reach the supervisor only, which forwards them.
            os.setpgid(0, 0)
            # The others stay blocked until the server handles them.
            signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGCHLD,))
            gc.unfreeze()
            settings = self.settings.for_one_of(self.table.count)
            self.serve(settings, self.table.process(index), self.listener)
            status = 0
        except TranslationError as failure:
            self._failure_file(index).write_bytes(pickle.dumps(failure))
        except OSError as failure:
            logger.error("the process cannot start", extra=describe_failure(failure))
        except BaseException:
            traceback.print_exc()
        finally:
            logging.shutdown()
            os._exit(status)

    # Ending

    def _handle(self, number: signal.Signals, had_terminal: bool) -> None:
        if number == signal.SIGHUP and not (had_terminal and not has_terminal()):
            self.table.request_reload()
        elif number != signal.SIGCHLD:
            self._end()

    def _end(self) -> None:
        """Tell all processes to end; a second time, to end at once."""
        self._is_ending = True
        # Once the last process has closed its copy, the system refuses connections.
        self.listener.close()
        for child in self._children:
            self._terminate(child)

    def _terminate(self, child: _Child) -> None:
        if child.pid:
            os.kill(child.pid, signal.SIGTERM)
            child.kill_at = time.monotonic() + self.settings.drain_seconds + _GRACE_SECONDS

    def _watch(self) -> None:
        """End processes that are stuck; they are replaced once they have ended."""
        now, patience = time.monotonic(), self.settings.watchdog_seconds
        for child in self._children:
            if child.pid == 0:
                continue
            is_silent = 0 < patience < self.table.silent_seconds(child.index)
            if is_silent or (child.kill_at is not None and now > child.kill_at):
                self._log_stuck(child, "killed")
                os.kill(child.pid, signal.SIGKILL)
            elif self.table.is_stuck(child.index) and child.kill_at is None:
                self._log_stuck(child, "told to end")
                self._terminate(child)

    def _log_stuck(self, child: _Child, action: str) -> None:
        logger.error(
            "a process is stuck", extra={"process_index": child.index, "pid": child.pid, "action": action}
        )

    def _reap(self) -> None:
        while any(child.pid for child in self._children):
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            for child in self._children:
                if child.pid == pid:
                    self._record_end(child, os.waitstatus_to_exitcode(status))

    def _record_end(self, child: _Child, status: int) -> None:
        has_served = self.table.state(child.index) in (State.READY, State.LEAVING)
        self.table.clear(child.index)
        logger.log(
            logging.INFO if status == 0 else logging.ERROR,
            "process ended",
            extra={"process_index": child.index, "pid": child.pid, "status": status},
        )
        child.pid = 0
        if self._is_ending:
            self._status = max(self._status, int(status != 0))
            return
        child.failures = 0 if has_served else child.failures + 1
        pause = _FIRST_PAUSE_SECONDS * 2 ** (child.failures - 1) if child.failures else 0.0
        child.start_at = time.monotonic() + min(pause, _LONGEST_PAUSE_SECONDS)
        if child.failures:
            self._give_up_if_hopeless(child, status)

    def _give_up_if_hopeless(self, child: _Child, status: int) -> None:
        """End the service if no process serves, and none will."""
        failure = _from_file(self._failure_file(child.index))
        if failure is not None:
            failure = self._with_whole_value(failure)
            logger.error(
                "a process cannot start", extra={"process_index": child.index, "reason": str(failure)}
            )
        if any(self.table.state(each.index) in (State.READY, State.LEAVING) for each in self._children):
            return
        if not self.table.has_served and failure is not None:
            self._failure = failure
        elif child.failures >= _MAX_FAILURES:
            text = f"a process ended {child.failures} times in a row while it started, last with {status}"
            self._failure = failure or TranslationError(text)
        else:
            return
        self._end()

    def _with_whole_value(self, failure: TranslationError) -> TranslationError:
        """Returns a failure with the value that was set, where each process has a part of it."""
        if not isinstance(failure, ConfigError):
            return failure
        whole, count = getattr(self.settings, failure.field, failure.value), self.table.count
        if getattr(self.settings.for_one_of(count), failure.field, whole) == whole:
            return failure
        requirement = f"in each of the {count} processes that share it {failure.requirement}"
        return ConfigError(failure.field, requirement, whole, is_missing=failure.is_missing)

    def _failure_file(self, index: int) -> Path:
        return self.table.folder / f"failure-{index}"


def supervise(settings: Settings, count: int, serve: Serve) -> int:
    """Serve in several processes; see `Supervisor`.

    Args:
        settings: The settings of the service.
        count: Number of processes.
        serve: What each of them does.

    Returns:
        The exit status.

    Raises:
        ConfigError: If the process cannot listen on the address, or a setting cannot work.
        TranslationError: If the processes cannot start.
    """
    set_up_logs(settings.log_level)
    with listen(settings.host, settings.port) as listener:
        logger.info("listening", extra={"url": url_of(listener)})
        table = ProcessTable(count)
        try:
            return Supervisor(settings, table, listener, serve).run()
        finally:
            table.close()


def _from_file(path: Path) -> TranslationError | None:
    """Returns why a process could not start, if it has said so."""
    if not path.exists():
        return None
    failure: TranslationError = pickle.loads(path.read_bytes())  # noqa: S301 - private to these processes
    path.unlink()
    return failure
