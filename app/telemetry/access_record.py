"""⑨ What is told of a request once it is over, in its log line and its trace; never of its text."""

from collections.abc import Mapping
from typing import Final, NamedTuple, get_args

from app.telemetry.timings import Stage, Timings

_FIELDS: Final[dict[Stage, str]] = {stage: f"{stage}_seconds" for stage in get_args(Stage)}


class AccessRecord(NamedTuple):
    """A request that is over; every value is from a small set, a number or the request's id.

    Attributes:
        request_id: The caller's, where it was plain, or ours.
        method: Of HTTP.
        endpoint: One of our paths, or `unmatched`.
        status: What the client was told.
        has_failed: Whether it was told that the reason is with us.
        outcome: What became of it, one of OUTCOMES.
        headers: Of the request, of which only `traceparent` and `tracestate` are ever read.
        began: When it came, seconds of the stages' clock.
        ended: When it was over.
        stages: Where its time went.
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
        """How long it took."""
        return self.ended - self.began

    def event(self) -> dict[str, object]:
        """Fields of its log line."""
        return {
            "endpoint": self.endpoint,
            "status": self.status,
            "outcome": self.outcome,
            "seconds": round(self.seconds, 6),
            **{_FIELDS[stage]: round(spent, 6) for stage, spent in self.timings.seconds().items()},
            **self.timings.facts(),
        }
