"""What is seen of a load is told by the time that it took."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import cast

import pytest

from benchmarks.harness.texts import SizedText
from benchmarks.services import Service, ServiceSpec
from benchmarks.services.traffic import Workload, send

_COMPUTED = 3.0


class _Handler(BaseHTTPRequestHandler):
    """Gives every request the same translation."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        body = b'{"translatedText": "un"}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Silent."""


@dataclass
class _Service:
    """A server that says how much it has computed."""

    port: int
    spec: ServiceSpec = field(default_factory=lambda: ServiceSpec(name="any", command=(), environment={}))
    computed: float = 0.0

    def processor_seconds(self) -> float:
        self.computed += _COMPUTED
        return self.computed


@pytest.fixture
def server() -> Iterator[Service]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as http:
        thread = Thread(target=http.serve_forever)
        thread.start()
        yield cast(Service, _Service(http.server_port))
        http.shutdown()
        thread.join()


def test_a_load_that_ends_by_its_number_is_told_by_the_time_it_took(server: Service) -> None:
    load = Workload(
        name="short",
        texts=[SizedText("one", 5, 5), SizedText("two", 5, 5)],
        concurrency=7,
        seconds=60.0,
        warm_up_seconds=60.0,
        source="en",
        target="fr",
        decoding={"strategy": "greedy"},
    )
    traffic = send(server, load.alone())
    seconds = 2 / traffic.rate
    assert sum(traffic.latencies) <= seconds < 300
    assert traffic.processor_share == pytest.approx(_COMPUTED / seconds)
    assert traffic.answers == {0: {"un"}, 1: {"un"}}
