"""The request totals of a real process add up in every scrape, during a burst and to its end."""

import json
import re
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.app.remote import Live, running, wait_for, wait_until_draining, wait_until_in_flight

BODY = b'{"q": "one two", "source": "en", "target": "fr"}'
HEAD = b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
WHOLE = HEAD + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY
STREAM = HEAD + b"Accept: text/event-stream\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY
HALF = HEAD + b"Content-Length: 99\r\n\r\n{"
BAD_CHUNK = HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n"
NONSENSE = b"nonsense\r\n\r\n"
NOWHERE = b"GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n"
INVALID = HEAD + b"Content-Length: 2\r\n\r\n{}"
_SAMPLE = re.compile(
    r'^dragoman_(?:(accepted)_total|outcomes_total\{outcome="(\w+)"\}|(requests_in_flight)) (\d+)', re.M
)


def scrape(live: Live) -> dict[str, int]:
    """The request totals of a scrape; they add up, the scrape included."""
    found = _SAMPLE.findall(live.get("metrics"))
    counts = {next(filter(None, names)): int(value) for *names, value in found}
    assert counts["accepted"] == sum(counts.values()) - counts["accepted"], counts
    return counts


@contextmanager
def scraping(live: Live) -> Iterator[list[dict[str, int]]]:
    """Scrape repeatedly until the service stops listening or the block ends."""
    scrapes: list[dict[str, int]] = []
    is_over = threading.Event()

    def run() -> None:
        while not is_over.wait(0.005):
            try:
                scrapes.append(scrape(live))
            except OSError:
                return

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield scrapes
    finally:
        is_over.set()
        thread.join()


class Client(threading.Thread):
    """Sends something; leaves after a while, or reads until the server closes or has answered."""

    def __init__(self, live: Live, data: bytes, leaves: threading.Event | None = None) -> None:
        super().__init__()
        self.status = 0
        self._data = data
        self._leaves = leaves
        self._connection = socket.create_connection(("127.0.0.1", live.port), timeout=60)
        self.start()

    def run(self) -> None:
        with self._connection as connection:
            connection.sendall(self._data)
            if self._leaves is not None:
                assert self._leaves.wait(60)
                return
            received = b""
            while b"\r\n\r\n" not in received and (chunk := connection.recv(65536)):
                received += chunk
            self.status = int(received.split()[1])


def test_the_totals_of_a_burst_are_what_the_clients_saw(tmp_path: Path) -> None:
    gate, leaving = tmp_path / "gate", threading.Event()
    with running(DOUBLE_GATE=str(gate), DOUBLE_PATIENCE="60", DRAGOMAN_MAX_REQUESTS="40") as live:
        before = scrape(live)
        leaving_clients = [Client(live, data, leaving) for data in (WHOLE, STREAM, HALF) * 3]
        # Their requests are admitted before the others fill the service.
        wait_until_in_flight(live, len(leaving_clients))
        with scraping(live) as scrapes:
            others = [WHOLE] * 60 + [BAD_CHUNK, NONSENSE, NOWHERE, INVALID] * 5
            clients = [Client(live, data) for data in others]
            leaving.set()
            # Of 60, at most 40 are in flight before the gate opens; the other 20 clients send errors.
            wait_for(lambda: scrape(live)["refused"] - before["refused"] >= 40)
            wait_for(lambda: len(scrapes) > 10)
            gate.touch()
            for client in (*leaving_clients, *clients):
                client.join(60)
        wait_until_in_flight(live, 0)
        after = scrape(live)
    statuses = [client.status for client in clients]
    risen = {name: after[name] - before[name] for name in after}
    # Every scrape except the last was answered.
    risen["answered"] -= risen["accepted"] - len(leaving_clients) - len(clients)
    assert {200, 400, 404, 503} <= set(statuses)
    assert risen["answered"] == statuses.count(200)
    assert risen["refused"] == len(statuses) - statuses.count(200)
    assert risen["abandoned"] == len(leaving_clients)


def test_the_totals_add_up_to_the_end_of_the_process(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with running(DOUBLE_GATE=str(gate), DRAGOMAN_DRAIN_SECONDS="60") as live:
        clients = [Client(live, WHOLE) for _ in range(20)]
        wait_until_in_flight(live, len(clients))
        with scraping(live) as scrapes:
            wait_for(lambda: len(scrapes) > 5)
            live.process.send_signal(signal.SIGTERM)
            wait_until_draining(live)
            late = [Client(live, WHOLE) for _ in range(5)]
            for client in late:
                client.join(60)
            gate.touch()
            for client in clients:
                client.join(60)
            assert live.process.wait(60) == 0
        assert [client.status for client in clients] == [200] * 20
        assert [client.status for client in late] == [503] * 5
    assert balanced_end(live)["refused"] == 6  # the late ones and the readiness probe


def test_requests_that_a_second_signal_ends_are_refused_or_abandoned() -> None:
    # No step ends, and no heartbeat starts a stream in the first 15 s.
    with running(DOUBLE_GATE="/never", DRAGOMAN_DRAIN_SECONDS="600") as live:
        plain, streams = ([Client(live, data) for _ in range(5)] for data in (WHOLE, STREAM))
        wait_until_in_flight(live, 10)
        live.process.send_signal(signal.SIGTERM)
        # Two signals at once count as one.
        wait_until_draining(live)
        time.sleep(0.5)
        live.process.send_signal(signal.SIGTERM)
        for client in (*plain, *streams):
            client.join(60)
        assert live.process.wait(60) == 0
    assert [client.status for client in (*plain, *streams)] == [503] * 10
    assert balanced_end(live)["refused"] >= 10


def balanced_end(live: Live) -> dict[str, int]:
    """The totals in the last log line; nothing is in flight any more."""
    ended: dict[str, int] = next(event for event in map(json.loads, live.log) if event["event"] == "ended")
    assert ended["accepted"] == ended["answered"] + ended["refused"] + ended["abandoned"]
    return ended


def test_probes_and_metrics_answer_while_the_service_is_full(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with running(DOUBLE_GATE=str(gate), DRAGOMAN_MAX_REQUESTS="1") as live:
        client = Client(live, WHOLE)
        wait_until_in_flight(live, 1)
        assert live.translate()[0] == 503
        assert json.loads(live.get("livez"))
        assert json.loads(live.get("readyz"))
        assert "dragoman_requests_in_flight 2.0" in live.get("metrics")
        gate.touch()
        client.join(60)
    assert client.status == 200
