"""The service in its own process, over real sockets."""

import signal
import threading
import time
from http.client import HTTPConnection
from pathlib import Path

from tests.app.remote import JSON, REQUEST, Live, running, wait_until_draining, wait_until_in_flight


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


def test_sigterm_answers_every_request_in_flight_and_ends_with_status_0(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with running(DOUBLE_GATE=str(gate), DRAGOMAN_DRAIN_SECONDS="60") as live:
        answers: list[tuple[int, dict[str, str]]] = []
        clients = [threading.Thread(target=lambda: answers.append(live.translate())) for _ in range(5)]
        for client in clients:
            client.start()
        wait_until_in_flight(live, 5)
        live.process.send_signal(signal.SIGTERM)
        wait_until_draining(live)
        assert live.translate()[0] == 503
        gate.touch()
        for client in clients:
            client.join(timeout=60)
        assert [status for status, _ in answers] == [200] * 5
        assert live.process.wait(timeout=60) == 0
