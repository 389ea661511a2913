"""What a load test must show for its run to count as passed, and what it did show."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from benchmarks.harness.report import Row

REFUSED = "refused"
_MOST_TIMES_SLOWER = 2.0


@dataclass(frozen=True, kw_only=True)
class Level:
    """One objective, and how the run did."""

    objective: str  # what was measured
    measured: float  # its value; NaN was not measured, and is a miss
    limit: float  # the worst that is permitted
    unit: str = ""  # unit of both
    is_floor: bool = False  # whether more is better

    @property
    def is_met(self) -> bool:
        """Whether the limit was kept."""
        return self.measured >= self.limit if self.is_floor else self.measured <= self.limit

    def row(self) -> Row:
        """A row of the table."""
        return {
            "objective": self.objective,
            "measured": self._amount(self.measured),
            "must be": f"{'at least' if self.is_floor else 'at most'} {self._amount(self.limit)}",
            "verdict": "met" if self.is_met else "MISSED",
        }

    def _amount(self, value: float) -> str:
        if value != value:
            return "nothing"
        digits = f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"
        return f"{digits} {self.unit}".rstrip()


def are_met(levels: Sequence[Level]) -> bool:
    """Whether something was measured, and no limit broken."""
    return bool(levels) and all(level.is_met for level in levels)


class Entry(Protocol):
    """What locust saw of one kind of request; an orderly refusal is no failure."""

    num_requests: int
    num_failures: int

    def get_response_time_percentile(self, percent: float) -> float | None:
        """Milliseconds that this share of the requests, 0 to 1, took at most."""


@dataclass(frozen=True, kw_only=True)
class Objectives:
    """The service level that users were promised."""

    # Longest permitted percentiles of each kind of request: milliseconds by share, 0 to 1
    latency_ms: Mapping[str, Mapping[float, float]]
    refusals: float = 0.01  # largest permitted share of refused requests, 0 to 1
    # Two kinds of request: p99 of the second is at most twice that of the first
    compared: tuple[str, str] | None = None

    def levels(self, seen: Mapping[str, Entry], scale: float = 1) -> Iterator[Level]:
        """How a run did, by kind of request, with orderly refusals under REFUSED; `scale` multiplies times.

        A kind that never ran is a miss: a run that tested nothing must not pass.
        """

        def latency(kind: str, share: float) -> float:
            ran = kind in seen and seen[kind].num_requests > 0
            return float(seen[kind].get_response_time_percentile(share) or 0) if ran else float("nan")

        for kind, limits in self.latency_ms.items():
            for share, limit in limits.items():
                objective = f"{kind}: p{share * 100:g}"
                yield Level(
                    objective=objective, measured=latency(kind, share), limit=limit * scale, unit="ms"
                )
        total = sum(kind.num_requests for kind in seen.values())
        failed = sum(kind.num_failures for kind in seen.values())
        refused = seen[REFUSED].num_requests if REFUSED in seen else 0
        for name, count, most in (("failed", failed, 0.0), ("refused", refused, self.refusals)):
            part = 100 * count / total if total else float("nan")
            yield Level(objective=f"{name}, of all requests", measured=part, limit=100 * most, unit="%")
        if self.compared is not None:
            alone, beside = (latency(kind, 0.99) for kind in self.compared)
            slower = beside / alone if alone else float("nan")
            objective = f"p99 {self.compared[1]}, in times of {alone:.0f} ms alone"
            yield Level(objective=objective, measured=slower, limit=_MOST_TIMES_SLOWER)
