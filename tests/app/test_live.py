"""The service in its own process, over real sockets."""

import signal
import threading
import time
from http.client import HTTPConnection

import pytest

from tests.app.remote import JSON, REQUEST, Live, running, wait_for


def test_an_answer_does_not_wait_for_acknowledgements(live: Live) -> None:
    connection = HTTPConnection("127.0.0.1", live.port, timeout=10)
    seconds = []
    for _ in range(50):
        began = time.monotonic()
        connection.request("POST", "/translate", REQUEST, JSON)
        assert connection.getresponse().read()
        seconds.append(time.monotonic() - began)
    connection.close()
    # Linux delays an acknowledgement by 40 ms.
    assert min(seconds) < 0.04


@pytest.mark.slow
def test_sigterm_answers_everyone_and_ends_with_status_0() -> None:
    with running(DOUBLE_SECONDS="4", DRAGOMAN_DRAIN_SECONDS="60") as live:
        answers: list[tuple[int, dict[str, str]]] = []
        clients = [threading.Thread(target=lambda: answers.append(live.translate())) for _ in range(5)]
        for client in clients:
            client.start()
        wait_for(lambda: _assert_in_flight(live, 6))
        live.process.send_signal(signal.SIGTERM)
        wait_for(lambda: _assert_not_ready(live))
        assert live.translate()[0] == 503
        for client in clients:
            client.join(timeout=60)
        assert [status for status, _ in answers] == [200] * 5
        assert live.process.wait(timeout=60) == 0


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
