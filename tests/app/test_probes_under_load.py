"""Probes and metrics answer while far more is asked than can be done."""

import json
import statistics
import threading
import time
from http.client import HTTPConnection
from pathlib import Path

import pytest

from tests.app.remote import JSON, REQUEST, Live, running, wait_until_in_flight

# Eight requests at a time, each of three steps: about 130 a second.
SLOW = {"DOUBLE_SECONDS": "0.02", "DRAGOMAN_MAX_REQUESTS": "8"}


class Flood(threading.Thread):
    """A client that asks again as soon as it has an answer."""

    def __init__(self, live: Live, is_over: threading.Event) -> None:
        super().__init__()
        self.statuses: list[int] = []
        self._connection = HTTPConnection("127.0.0.1", live.port, timeout=20)
        self._is_over = is_over

    def run(self) -> None:
        while not self._is_over.is_set():
            self._connection.request("POST", "/translate", REQUEST, JSON)
            response = self._connection.getresponse()
            response.read()
            self.statuses.append(response.status)
        self._connection.close()


def seconds_for(live: Live, path: str) -> float:
    began = time.monotonic()
    assert live.get(path)
    return time.monotonic() - began


def test_they_answer_while_the_service_is_full(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with running(DOUBLE_GATE=str(gate), DRAGOMAN_MAX_REQUESTS="1") as live:
        client = threading.Thread(target=live.translate)
        client.start()
        wait_until_in_flight(live, 1)
        assert live.translate()[0] == 503
        assert json.loads(live.get("livez"))
        assert json.loads(live.get("readyz"))
        assert "dragoman_requests_in_flight 2.0" in live.get("metrics")
        gate.touch()
        client.join()


@pytest.mark.objective
def test_they_answer_as_without_load() -> None:
    is_over = threading.Event()
    with running(**SLOW) as live:
        calm = statistics.median(seconds_for(live, path) for _ in range(5) for path in ("livez", "metrics"))
        floods = [Flood(live, is_over) for _ in range(24)]
        for flood in floods:
            flood.start()
        try:
            probes = [seconds_for(live, path) for _ in range(15) for path in ("livez", "readyz")]
            scrapes = [seconds_for(live, "metrics") for _ in range(5)]
        finally:
            is_over.set()
            for flood in floods:
                flood.join()
    statuses = [status for flood in floods for status in flood.statuses]
    assert set(statuses) == {200, 503}
    # Twenty times what a quiet machine of two cores needs; it has the clients to bear as well.
    assert statistics.median(probes) < 1 + 20 * calm
    assert statistics.median(scrapes) < 2 + 40 * calm
