"""What may come over a socket that is no proper request, or comes too slowly."""

import json
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress

import pytest

from tests.app.remote import Live, running, wait_until_in_flight

OPENAPI = b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n"
CHUNKED = b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"


def test_a_body_cut_short_leaves_nothing_behind(live: Live) -> None:
    head = b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    live.exchange(head + b'Content-Length: 100\r\n\r\n{"q":', end=True)
    wait_until_in_flight(live, 0)


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


def test_a_client_that_is_refused_early_gets_no_100_continue(live: Live) -> None:
    head = b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: 9\r\n"
    answer = live.exchange(head + b"Expect: 100-continue\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 415 ")
    assert b"\r\nconnection: close\r\n" in answer


def test_a_flood_of_requests_sent_ahead_is_not_taken_in(live: Live) -> None:
    """While one request is worked on, the next ones stay where they are: with their sender."""
    request = b"GET /languages HTTP/1.1\r\nHost: x\r\n\r\n"
    with socket.create_connection(("127.0.0.1", live.port), timeout=5) as connection:
        connection.settimeout(2)
        with pytest.raises(TimeoutError):
            connection.sendall(request * 2_000_000)


def test_head_is_get_without_a_body(live: Live) -> None:
    head, _, body = live.exchange(b"HEAD /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").partition(
        b"\r\n\r\n"
    )
    assert head.startswith(b"HTTP/1.1 200 OK")
    assert b"content-length: 15" in head.lower()
    assert body == b""


@pytest.fixture(scope="module")
def impatient() -> Iterator[Live]:
    with running(DOUBLE_PATIENCE="1.5") as service:
        yield service


STARTS = [
    b"GET /livez HTTP/1.1\r\nHost: x\r\nA: ",
    b"POST /detect HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 900\r\n\r\n",
    b"POST /translate HTTP/1.1\r\nHost: x\r\n" + CHUNKED + b"384\r\n",
    b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\nGET /livez HTTP/1.1\r\nHost:",
]


def test_a_client_that_sends_a_byte_now_and_then_is_refused(impatient: Live) -> None:
    with ThreadPoolExecutor(len(STARTS)) as clients:
        answers = list(clients.map(lambda start: drip(impatient, start), STARTS))
    for answer in answers:
        head, _, body = answer[answer.rindex(b"HTTP/1.1 ") :].partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 408 Request Timeout")
        assert json.loads(body)["code"] == "request_too_slow"
    wait_until_in_flight(impatient, 0)


def drip(service: Live, start: bytes) -> bytes:
    """What the service answers to a start that a byte now and then follows."""
    with socket.create_connection(("127.0.0.1", service.port), timeout=60) as connection:
        connection.sendall(start)
        is_over = threading.Event()

        def send() -> None:
            with suppress(OSError):
                while not is_over.wait(0.05):
                    connection.sendall(b"a")

        sender = threading.Thread(target=send)
        sender.start()
        received = _read_all(connection)
        is_over.set()
        sender.join()
    return received


def test_a_client_that_does_not_read_loses_its_connection(impatient: Live) -> None:
    requests = OPENAPI * 1000
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(60)
        connection.connect(("127.0.0.1", impatient.port))
        connection.sendall(requests)
        time.sleep(1.5)
        wait_until_in_flight(impatient, 0)
        assert _read_all(connection).count(b"HTTP/1.1 200 OK") < 1000


def test_slow_clients_do_not_delay_others(impatient: Live) -> None:
    """A hundred that send half a head, and ten that never read: all of them go, and others notice nothing."""
    with ExitStack() as stack:
        dawdlers = [
            stack.enter_context(socket.create_connection(("127.0.0.1", impatient.port), timeout=60))
            for _ in range(110)
        ]
        for number, connection in enumerate(dawdlers):
            connection.sendall(OPENAPI * 200 if number < 10 else OPENAPI[:-4])
        for _ in range(10):
            assert impatient.translate()[0] == 200
        for connection in dawdlers[10:]:
            assert _read_all(connection).startswith(b"HTTP/1.1 408 ")
    wait_until_in_flight(impatient, 0)


def test_a_slow_but_steady_upload_is_served(impatient: Live) -> None:
    """It lasts longer than a client that says nothing is borne."""
    body = json.dumps({"q": ["one two"] * 200, "source": "en", "target": "fr", "api_key": "k" * 500}).encode()
    padded = body + b" " * 200_000
    head = b"POST /translate HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n"
    with socket.create_connection(("127.0.0.1", impatient.port), timeout=60) as connection:
        connection.sendall(head + b"Content-Length: %d\r\n\r\n" % len(padded))
        for place in range(0, len(padded), 10_000):
            connection.sendall(padded[place : place + 10_000])
            time.sleep(0.1)
        assert connection.recv(65536).startswith(b"HTTP/1.1 200 OK")


def _read_all(connection: socket.socket) -> bytes:
    received = b""
    with suppress(ConnectionResetError):
        while chunk := connection.recv(65536):
            received += chunk
    return received
