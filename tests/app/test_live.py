"""The service in its own process, over real sockets."""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path

import pytest
from libretranslatepy import LibreTranslateAPI

ROOT = Path(__file__).parents[2]
REQUEST = json.dumps({"q": "one two", "source": "en", "target": "fr"}).encode()
JSON = {"Content-Type": "application/json"}


class Live:
    """A running process and its address."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.process = process
        self.port = port
        self.url = f"http://127.0.0.1:{port}/"

    def get(self, path: str) -> str:
        with urllib.request.urlopen(self.url + path, timeout=10) as response:
            return str(response.read(), "utf-8")

    def translate(self) -> tuple[int, dict[str, str]]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.request("POST", "/translate", REQUEST, JSON)
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            connection.close()

    def exchange(self, data: bytes, *, end: bool = False) -> bytes:
        """Send bytes, read until the server closes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as connection:
            connection.sendall(data)
            if end:
                connection.shutdown(socket.SHUT_WR)
            received = b""
            while chunk := connection.recv(65536):
                received += chunk
            return received


@contextmanager
def running(**variables: str) -> Iterator[Live]:
    environment = os.environ | {"DRAGOMAN_PORT": "0", "OMP_NUM_THREADS": "1"} | variables
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.app.live"], cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    log = threading.Thread(target=process.stderr.read, daemon=True)
    try:
        while "listening" not in (line := process.stderr.readline()):
            assert line, "the process ended before it listened"
        port = int(json.loads(line)["url"].rpartition(":")[2])
        log.start()
        live = Live(process, port)
        wait_for(lambda: live.get("readyz"))
        yield live
    finally:
        process.kill()
        process.wait()
        if log.ident is not None:
            log.join()
        process.stderr.close()


def wait_for(attempt: Callable[[], object], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while True:
        try:
            attempt()
            return
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.05)


@pytest.fixture(scope="module")
def live() -> Iterator[Live]:
    with running() as process:
        yield process


def test_libretranslates_client_works_unchanged(live: Live) -> None:
    client = LibreTranslateAPI(live.url)
    assert client.translate("good morning, you & me = 100 %", "en", "fr") == "GOOD MORNING, YOU & ME = 100 %"
    assert client.detect("Où est la gare, s'il vous plaît ?")[0]["language"] == "fr"
    assert [language["code"] for language in client.languages()] == ["en", "fr"]


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 4, 400),
        (random.Random(1).randbytes(64).replace(b"\n", b"") + b"\r\n\r\n", 400),
        (b"GET /livez HTTP/1.1\r\nHost: x\r\nA: b\0c\r\n\r\n", 400),
        (b"GET /livez HTTP/1.1\r\n\r\n", 400),
        (b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        (b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", 400),
        (b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\nA: " + b"a" * 20_000 + b"\r\n\r\n", 431),
        (b"GET /livez HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 20_000, 431),
        (b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + b"A: b\r\n" * 120 + b"\r\n", 431),
        (b"GET /" + b"a" * 9_000 + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 414),
        (b"GET /livez HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n", 200),
    ],
)
def test_bytes_that_are_no_request(live: Live, data: bytes, status: int) -> None:
    head, _, body = live.exchange(data).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status)
    if status != 200:
        assert set(json.loads(body)) == {"error", "code", "request_id"}
    assert live.translate()[0] == 200


def test_a_body_over_the_limit_gets_its_answer_although_nobody_read_it(live: Live) -> None:
    request = urllib.request.Request(live.url + "translate", b"a" * 10_000_000, JSON)
    with pytest.raises(urllib.error.HTTPError) as refusal:
        urllib.request.urlopen(request, timeout=10)
    with refusal.value as answer:
        assert (answer.code, json.loads(answer.read())["code"]) == (413, "body_too_large")


def test_a_body_cut_short_leaves_nothing_behind(live: Live) -> None:
    head = b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    live.exchange(head + b'Content-Length: 100\r\n\r\n{"q":', end=True)
    wait_for(lambda: _assert_idle(live), seconds=5)


def _assert_idle(live: Live) -> None:
    if "dragoman_requests_in_flight 1.0" not in live.get("metrics"):
        raise OSError("still in flight")


def test_pipelined_requests_are_each_answered_in_order(live: Live) -> None:
    requests = b"".join(
        b"POST /translate HTTP/1.1\r\nHost: x\r\nX-Request-ID: same\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n%s\r\n%s" % (len(body), b"Connection: close\r\n" if i == 19 else b"", body)
        for i in range(20)
        for body in [json.dumps({"q": f"number {i}", "source": "en", "target": "fr"}).encode()]
    )
    answers = live.exchange(requests)
    places = [answers.index(b'"NUMBER %d"' % i) for i in range(20)]
    assert places == sorted(places)
    assert answers.count(b"HTTP/1.1 200 OK") == 20


def test_sigterm_answers_everyone_and_ends_with_status_0() -> None:
    with running(DOUBLE_SECONDS="1.2", DRAGOMAN_DRAIN_SECONDS="20") as live:
        answers: list[tuple[int, dict[str, str]]] = []
        clients = [threading.Thread(target=lambda: answers.append(live.translate())) for _ in range(5)]
        for client in clients:
            client.start()
        wait_for(lambda: _assert_in_flight(live, 6), seconds=20)
        live.process.send_signal(signal.SIGTERM)
        wait_for(lambda: _assert_not_ready(live), seconds=5)
        assert live.translate()[0] == 503
        for client in clients:
            client.join(timeout=20)
        assert [status for status, _ in answers] == [200] * 5
        assert live.process.wait(timeout=20) == 0


def _assert_in_flight(live: Live, count: int) -> None:
    # The request that asks is in flight too.
    if f"dragoman_requests_in_flight {count}.0" not in live.get("metrics"):
        raise OSError("not yet in flight")


def _assert_not_ready(live: Live) -> None:
    connection = HTTPConnection("127.0.0.1", live.port, timeout=10)
    connection.request("GET", "/readyz")
    status = connection.getresponse().status
    connection.close()
    if status != 503:
        raise OSError("still ready")
