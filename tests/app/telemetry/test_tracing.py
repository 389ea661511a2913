"""Traces: one span a request, one child a stage, nothing of the text; only if traces are on."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from app.main import create_app
from app.settings import Settings
from app.telemetry.tracing import Tracing
from tests.app.conftest import Lines, client_of
from tests.app.double import DoubleBackend
from tests.app.remote import running

CANARY = "zanzibar"
TRACE = "0af7651916cd43dd8448eb211c80319c"
CALLER = "b7ad6b7169203331"
REQUEST = {"q": CANARY, "source": "en", "target": "fr"}


class Traced:
    """An application whose spans stay in memory."""

    def __init__(self, backend: DoubleBackend) -> None:
        self.exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.app = create_app(Settings(_env_file=None), backend)
        self.app.state.context.tracing = Tracing(provider)

    async def ask(self, *, path: str = "/translate", **headers: str) -> tuple[ReadableSpan, ...]:
        async with self.app.router.lifespan_context(self.app), client_of(self.app) as client:
            await client.post(path, json=REQUEST, headers=headers)
            return self.exporter.get_finished_spans()


@pytest.mark.anyio
async def test_a_request_is_a_span_and_each_stage_a_child(backend: DoubleBackend, lines: Lines) -> None:
    *timings, request = await Traced(backend).ask(**{"X-Request-ID": "mine"})
    assert (request.name, request.kind) == ("POST /translate", SpanKind.SERVER)
    assert request.status.status_code is StatusCode.UNSET
    assert dict(request.attributes or {}) == {
        "http.request.method": "POST",
        "http.route": "/translate",
        "http.response.status_code": 200,
        "dragoman.request_id": "mine",
        "dragoman.outcome": "answered",
        "dragoman.items": 1,
        "dragoman.characters": len(CANARY),
        "dragoman.source_tokens": 2,
        "dragoman.target_tokens": 1,
        "dragoman.pair": "en-fr",
    }
    assert list(dict.fromkeys(stage.name for stage in timings)) == [
        "split", "encode", "queue", "decode", "finish",
    ]  # fmt: skip
    for stage in timings:
        assert stage.parent == request.context
        assert request.start_time <= stage.start_time <= stage.end_time <= request.end_time
    event = next(line for line in lines() if line["event"] == "request")
    assert event["trace_id"] == f"{request.context.trace_id:032x}"


@pytest.mark.anyio
async def test_the_trace_of_the_client_continues(backend: DoubleBackend) -> None:
    *_, request = await Traced(backend).ask(traceparent=f"00-{TRACE}-{CALLER}-01")
    assert f"{request.context.trace_id:032x}" == TRACE
    assert request.parent is not None
    assert f"{request.parent.span_id:016x}" == CALLER


@pytest.mark.anyio
async def test_a_client_may_turn_its_trace_off(backend: DoubleBackend) -> None:
    assert await Traced(backend).ask(traceparent=f"00-{TRACE}-{CALLER}-00") == ()


@pytest.mark.anyio
@pytest.mark.parametrize("traceparent", ["", "00-0-0-01", "?", f"00-{'0' * 32}-{CALLER}-01", "a" * 4000])
async def test_a_broken_traceparent_starts_a_new_trace(backend: DoubleBackend, traceparent: str) -> None:
    *_, request = await Traced(backend).ask(traceparent=traceparent)
    assert request.parent is None


@pytest.mark.anyio
async def test_a_fault_is_an_error_without_its_message(backend: DoubleBackend) -> None:
    backend.poison = CANARY
    spans = await Traced(backend).ask()
    assert spans[-1].status.status_code is StatusCode.ERROR
    assert not spans[-1].events


@pytest.mark.anyio
async def test_neither_texts_nor_paths_are_in_a_trace(backend: DoubleBackend) -> None:
    spans = await Traced(backend).ask(path=f"/{CANARY}")
    assert spans[-1].name == "POST unmatched"
    spans += await Traced(backend).ask()
    assert not any(CANARY in span.to_json() for span in spans)


def test_traces_without_the_extra_are_a_configuration_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "app.telemetry.tracing", None)
    with pytest.raises(Exception, match="`traces` must be off, unless the extra `otel` is installed"):
        create_app(Settings(_env_file=None, traces="on"))


class Collector(HTTPServer):
    """A collector of OTLP over HTTP."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Collect)
        self.requests: list[ExportTraceServiceRequest] = []


class _Collect(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.requests.append(ExportTraceServiceRequest.FromString(body))
        self.send_response(200 if self.path == "/v1/traces" else 404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_arguments: object) -> None:
        pass


@contextmanager
def collector() -> Iterator[Collector]:
    server = Collector()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_process_sends_its_spans_before_it_ends() -> None:
    with collector() as server:
        variables = {
            "DRAGOMAN_TRACES": "on",
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{server.server_port}",
            "OTEL_EXPORTER_OTLP_COMPRESSION": "none",
            "OTEL_SERVICE_NAME": "theirs",
        }
        with running(**variables) as live:
            headers = {"traceparent": f"00-{TRACE}-{CALLER}-01"}
            httpx.post(live.url + "translate", json=REQUEST, headers=headers).raise_for_status()
            live.process.terminate()
            assert live.process.wait(30) == 0
    (resource,) = [spans for request in server.requests for spans in request.resource_spans][:1]
    names = {attribute.key: attribute.value.string_value for attribute in resource.resource.attributes}
    assert names["service.name"] == "theirs"
    spans = [
        span
        for request in server.requests
        for each in request.resource_spans
        for scope in each.scope_spans
        for span in scope.spans
        if span.trace_id.hex() == TRACE
    ]
    assert {"POST /translate", "split", "encode", "queue", "decode", "finish"} == {
        span.name for span in spans
    }
    assert CANARY not in str(server.requests)


def test_a_collector_that_does_not_answer_delays_nothing() -> None:
    nowhere = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_EXPORTER_OTLP_TIMEOUT": "120"}
    with running(DRAGOMAN_TRACES="on", **nowhere) as live:
        httpx.post(live.url + "translate", json=REQUEST).raise_for_status()
        live.process.terminate()
        assert live.process.wait(30) == 0
    assert CANARY not in "".join(live.log)
