"""The shutdown of a real process: the answers, the exit status, and how long it takes."""

import json
import os
import pty
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path

from tests.app.remote import (
    DOUBLE,
    JSON,
    ROOT,
    Live,
    body_of,
    running,
    wait_for,
    wait_until_draining,
    wait_until_in_flight,
)

# Steps of the double end when this file exists, which is never.
ENDLESS = {"DOUBLE_GATE": "/never", "DRAGOMAN_DRAIN_SECONDS": "600"}
# Two signals within 0.2 s count as one.
LATER = 0.5


class Clients:
    """Several clients in threads, each waiting for one answer."""

    def __init__(self, live: Live, count: int) -> None:
        self.answers: list[tuple[int, dict[str, str]]] = []
        self.failures: list[Exception] = []
        self._threads = [threading.Thread(target=self._ask, args=(live,)) for _ in range(count)]
        for thread in self._threads:
            thread.start()
        wait_until_in_flight(live, count)

    def _ask(self, live: Live) -> None:
        try:
            self.answers.append(live.translate())
        except Exception as failure:
            self.failures.append(failure)

    def join(self) -> list[tuple[int, str | None]]:
        """Status and code of every answer; some clients may have none."""
        for thread in self._threads:
            thread.join(60)
        return [(status, body.get("code")) for status, body in self.answers]

    def outcomes(self) -> list[tuple[int, str | None]]:
        """Status and code of every answer."""
        found = self.join()
        assert self.failures == []
        return found

    def wait_for_failures(self, count: int) -> None:
        """Wait until the connections of so many clients have ended without an answer."""
        wait_for(lambda: len(self.failures) >= count)


def end(live: Live, *signals: signal.Signals) -> None:
    """Send signals one after the other, and wait for exit status 0."""
    for number in signals[:-1]:
        live.process.send_signal(number)
        wait_until_draining(live)
        time.sleep(LATER)
    live.process.send_signal(signals[-1])
    assert live.process.wait(timeout=60) == 0


def test_a_stream_ends_with_an_error_event_and_a_request_that_is_still_arriving_is_rejected() -> None:
    with (
        running(DOUBLE_SECONDS="0.3", DOUBLE_PATIENCE="60", DRAGOMAN_DRAIN_SECONDS="60") as live,
        closing(HTTPConnection("127.0.0.1", live.port, timeout=60)) as connection,
        socket.create_connection(("127.0.0.1", live.port), timeout=60) as slow,
    ):
        slow.sendall(b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n")
        slow.sendall(b"Content-Length: 1000\r\n\r\n{")
        wait_until_in_flight(live, 1)
        connection.request("POST", "/translate", body_of("one " * 38), JSON | {"Accept": "text/event-stream"})
        response = connection.getresponse()
        assert response.readline() == b"event: partial\n"
        end(live, signal.SIGTERM, signal.SIGTERM)
        *_, name, data, empty = response.read().decode().split("\n")[:-1]
        received = b"".join(iter(lambda: slow.recv(65536), b""))
    assert (name, empty) == ("event: error", "")
    assert json.loads(data.removeprefix("data: "))["code"] == "draining"
    assert received.startswith(b"HTTP/1.1 503 ")
    assert b'"code":"draining"' in received


def test_after_drain_seconds_requests_in_flight_are_rejected() -> None:
    with running(**ENDLESS | {"DRAGOMAN_DRAIN_SECONDS": "1.2"}) as live:
        clients = Clients(live, 3)
        end(live, signal.SIGTERM)
        assert clients.outcomes() == [(503, "draining")] * 3


def test_two_signals_at_once_count_as_one(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with running(DOUBLE_GATE=str(gate), DRAGOMAN_DRAIN_SECONDS="60") as live:
        clients = Clients(live, 3)
        # Both arrive when the process continues.
        for each in (signal.SIGSTOP, signal.SIGTERM, signal.SIGINT, signal.SIGCONT):
            live.process.send_signal(each)
        wait_until_draining(live)
        time.sleep(LATER)  # by then a second signal would have refused them
        gate.touch()
        assert clients.outcomes() == [(200, None)] * 3
        assert live.process.wait(timeout=60) == 0


def test_a_stuck_engine_fails_liveness_and_does_not_delay_the_end() -> None:
    with running(**ENDLESS, DRAGOMAN_WATCHDOG_SECONDS="1") as live:
        clients = Clients(live, 2)
        wait_for(lambda: live.status("livez") == 503)
        end(live, signal.SIGTERM, signal.SIGTERM)
        assert clients.outcomes() == [(503, "draining")] * 2
    stacks = [line for line in live.log if line.startswith("  File ")]
    assert any('double.py", line' in place and place.endswith("in _advance\n") for place in stacks)
    assert sum('"event":"engine stuck"' in line for line in live.log) == 1


def test_a_process_can_end_while_it_loads() -> None:
    with running(real=True, is_ready=False, DRAGOMAN_CHECKPOINT=str(ROOT / "checkpoints")) as live:
        end(live, signal.SIGTERM)


def test_closing_its_terminal_ends_the_process() -> None:
    """SIGHUP has two meanings; a reload would leave a service without its terminal running."""
    master, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, *DOUBLE],
        cwd=ROOT,
        env=os.environ | {"DRAGOMAN_PORT": "0", "OMP_NUM_THREADS": "1"},
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
    )
    try:
        os.close(terminal)
        output = b""
        while b"listening" not in output:
            output += os.read(master, 65536)
        os.close(master)
        process.send_signal(signal.SIGHUP)
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()
        process.wait()


def test_without_a_terminal_sighup_does_not_end_the_process() -> None:
    with running() as live:
        live.process.send_signal(signal.SIGHUP)
        assert live.translate()[0] == 200
        assert live.process.poll() is None
