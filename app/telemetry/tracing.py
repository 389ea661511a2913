"""⑨ OpenTelemetry traces: one span a request, and in it one span a stage. Only loaded if traces are on.

OpenTelemetry's own variables set where spans go, how many are kept and the name of the service:
https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/.
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
    """Writes the spans of a request after it is over, so that requests never wait for them.

    Args:
        provider: Where spans go.
    """

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer(_SCOPE, version("dragoman"))
        self._propagator = TraceContextTextMapPropagator()

    @classmethod
    def from_environment(cls) -> Self:
        """Traces to the collector that OpenTelemetry's variables name; by default OTLP over HTTP, locally."""
        ours = Resource({"service.name": "dragoman", "service.version": version("dragoman")})
        resource = ours.merge(OTELResourceDetector().detect())
        provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        return cls(provider)

    def record(self, access: AccessRecord) -> str:
        """Write the spans of a request.

        Returns:
            The trace id, 32 hexadecimal digits.
        """
        # Durations come from the monotonic clock; the wall clock only places them in time.
        epoch = time.time_ns() - int(clock() * 1e9)
        span = self._tracer.start_span(
            f"{access.method} {access.endpoint}",
            self._propagator.extract(
                {str(name, "latin-1"): str(value, "latin-1") for name, value in access.headers}
            ),
            SpanKind.SERVER,
            _attributes(access),
            start_time=epoch + int(access.began * 1e9),
        )
        if span.is_recording():
            self._record_stages(access, span, epoch)
        span.end(epoch + int(access.ended * 1e9))
        return format_trace_id(span.get_span_context().trace_id)

    def close(self) -> None:
        """Send the remaining spans, for a few seconds at most."""
        # The library waits longer than its timeout for a collector that does not answer.
        ending = threading.Thread(target=self._provider.shutdown, name="traces", daemon=True)
        ending.start()
        ending.join(_LAST_SECONDS)

    def _record_stages(self, access: AccessRecord, parent: Span, epoch: int) -> None:
        if access.has_failed:
            parent.set_status(StatusCode.ERROR)
        context = set_span_in_context(parent)
        for began, ended, stage in access.timings.spans:
            child = self._tracer.start_span(stage, context, start_time=epoch + int(began * 1e9))
            child.end(epoch + int(ended * 1e9))


def _attributes(access: AccessRecord) -> dict[str, str | int]:
    sizes = {f"dragoman.{name}": value for name, value in access.timings.sizes().items()}
    return {
        "http.request.method": access.method,
        "http.route": access.endpoint,
        "http.response.status_code": access.status,
        "dragoman.outcome": access.outcome,
        "dragoman.request_id": access.request_id,
        **sizes,
    }
