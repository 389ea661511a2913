"""⑨ What the log line and the trace of a finished request say; never anything of its text."""

import logging
from collections.abc import Mapping
from typing import Final, NamedTuple, get_args

from app.telemetry.timings import Stage, Timings

PROBES: Final = frozenset({"/livez", "/readyz", "/health", "/metrics"})
"""Paths that machines ask all day long."""
_FIELDS: Final[dict[Stage, str]] = {stage: f"{stage}_seconds" for stage in get_args(Stage)}


class AccessRecord(NamedTuple):
    """A finished request; every value is from a small set, a number or the request's id.

    Attributes:
        request_id: The client's, if it was plain, else ours.
        method: The HTTP method.
        endpoint: One of our paths, or `unmatched`.
        status: The HTTP status that the client got.
        has_failed: Whether the status says that the service is at fault.
        outcome: How the request ended, one of OUTCOMES.
        headers: The request's; only `traceparent` and `tracestate` are ever read.
        began: When the request arrived, seconds of the timings' clock.
        ended: When it was over.
        timings: How long each stage took.
    """

    request_id: str
    method: str
    endpoint: str
    status: int
    has_failed: bool
    outcome: str
    headers: Mapping[str, str]
    began: float
    ended: float
    timings: Timings

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
        return {
            "endpoint": self.endpoint,
            "status": self.status,
            "outcome": self.outcome,
            "seconds": round(self.seconds, 6),
            **{_FIELDS[stage]: round(spent, 6) for stage, spent in self.timings.seconds().items()},
            **self.timings.sizes(),
        }
