"""⑨ What the log line and the trace of a request say; never anything of its text."""

import logging
from collections.abc import Sequence
from typing import Final, get_args

from app.telemetry.timings import Stage, Timings, clock

PROBES: Final = frozenset({"/livez", "/readyz", "/health", "/metrics"})
"""Paths that machines ask all day long."""
_FIELDS: Final[dict[Stage, str]] = {stage: f"{stage}_seconds" for stage in get_args(Stage)}


class AccessRecord:
    """A request that arrives now; every value is from a small set, a number or the request's id.

    Args:
        request_id: The client's, if it was plain, else ours.
        method: The HTTP method.
        headers: The request's header fields; only `traceparent` and `tracestate` are ever read.

    Attributes:
        request_id: As given.
        method: As given.
        headers: As given.
        endpoint: One of our paths, or `unmatched`; empty until the request is finished.
        status: The HTTP status that the client got.
        has_failed: Whether the status says that the service is at fault.
        outcome: How the request ended, one of OUTCOMES; empty until it is finished.
        began: When it arrived, seconds of the timings' clock.
        ended: When it was over.
        timings: How long each stage took.
    """

    def __init__(self, request_id: str, method: str, headers: Sequence[tuple[bytes, bytes]]) -> None:
        self.request_id = request_id
        self.method = method
        self.headers = headers
        self.endpoint = ""
        self.status = 0
        self.has_failed = False
        self.outcome = ""
        self.began = self.ended = clock()
        self.timings = Timings()

    @property
    def seconds(self) -> float:
        """How long the request took."""
        return self.ended - self.began

    @property
    def level(self) -> int:
        """Level of the log line: DEBUG for probes and scrapes that succeeded, else INFO."""
        return logging.DEBUG if self.endpoint in PROBES and self.status < 400 else logging.INFO

    def log_fields(self) -> dict[str, object]:
        """Fields of the log line."""
        fields: dict[str, object] = {
            "endpoint": self.endpoint,
            "status": self.status,
            "outcome": self.outcome,
            "seconds": _microseconds(self.seconds),
        }
        for stage, spent in self.timings.seconds().items():
            fields[_FIELDS[stage]] = _microseconds(spent)
        fields |= self.timings.sizes()
        return fields


def _microseconds(seconds: float) -> float:
    """Returns seconds in whole microseconds; `round` takes three times as long."""
    return int(1e6 * seconds + 0.5) / 1e6
