"""⑨ OpenTelemetry traces: a span a request, and within it one a stage; nobody loads this unless it is on.

Where spans go, how many, and under what name the service speaks of itself is told by OpenTelemetry's own
variables (https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/).
"""

import threading
import time
from importlib.metadata import version
from typing import Final, Self

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, StatusCode, format_trace_id, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from app.telemetry.access_record import AccessRecord
from app.telemetry.timings import clock

_SCOPE: Final = "dragoman"
_LAST_SECONDS: Final = 3.0


class Tracing:
    """Writes spans once a request is over, so that a request never waits for it.

    Args:
        provider: Where spans go.
    """

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer(_SCOPE, version("dragoman"))
        self._propagator = TraceContextTextMapPropagator()

    @classmethod
    def from_environment(cls) -> Self:
        """Traces to a collector, as OpenTelemetry's variables say: by default OTLP over HTTP to this host."""
        ours = Resource({"service.name": "dragoman", "service.version": version("dragoman")})
        resource = ours.merge(OTELResourceDetector().detect())
        provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        return cls(provider)

    def record(self, visit: AccessRecord) -> str:
        """Write the spans of a request.

        Returns:
            Id of its trace, 32 hexadecimal digits.
        """
        # Durations are told by a clock that never jumps; only where they lie in time is told by the wall's.
        epoch = time.time_ns() - int(clock() * 1e9)
        span = self._tracer.start_span(
            f"{visit.method} {visit.endpoint}",
            self._propagator.extract(visit.headers),
            SpanKind.SERVER,
            _attributes(visit),
            start_time=epoch + int(visit.began * 1e9),
        )
        if span.is_recording():
            self._record_stages(visit, span, epoch)
        span.end(epoch + int(visit.ended * 1e9))
        return format_trace_id(span.get_span_context().trace_id)

    def close(self) -> None:
        """Send what is left, for a few seconds at most."""
        # The library itself waits for a collector that is away longer than it is told to.
        ending = threading.Thread(target=self._provider.shutdown, name="traces", daemon=True)
        ending.start()
        ending.join(_LAST_SECONDS)

    def _record_stages(self, visit: AccessRecord, parent: Span, epoch: int) -> None:
        if visit.has_failed:
            parent.set_status(StatusCode.ERROR)
        context = set_span_in_context(parent)
        for began, ended, stage in visit.timings.spans:
            child = self._tracer.start_span(stage, context, start_time=epoch + int(began * 1e9))
            child.end(epoch + int(ended * 1e9))


def _attributes(visit: AccessRecord) -> dict[str, str | int]:
    facts = {f"dragoman.{name}": value for name, value in visit.timings.facts().items()}
    return {
        "http.request.method": visit.method,
        "http.route": visit.endpoint,
        "http.response.status_code": visit.status,
        "dragoman.outcome": visit.outcome,
        "dragoman.request_id": visit.request_id,
        **facts,
    }
