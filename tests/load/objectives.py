"""What a load test must show for its run to count as passed, and what it did show."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

REFUSED = "refused"
HEADINGS = ("objective", "measured", "must be", "verdict")


@dataclass(frozen=True, kw_only=True)
class Level:
    """One objective, and how the run did.

    Args:
        objective: What was measured.
        measured: Its value; what is not a number was not measured, and is a miss.
        limit: The worst that is permitted.
        unit: Of both.
        is_floor: Whether more is better.
    """

    objective: str
    measured: float
    limit: float
    unit: str = ""
    is_floor: bool = False

    @property
    def is_met(self) -> bool:
        """Whether the limit was kept."""
        return self.measured >= self.limit if self.is_floor else self.measured <= self.limit

    def cells(self) -> tuple[str, ...]:
        """A row of the table."""
        bound = "at least" if self.is_floor else "at most"
        verdict = "met" if self.is_met else "MISSED"
        return self.objective, self._amount(self.measured), f"{bound} {self._amount(self.limit)}", verdict

    def to_dict(self) -> dict[str, object]:
        """The same for JSON; what was not measured is null."""
        measured = None if self.measured != self.measured else self.measured
        return {
            "kind": "objective",
            "objective": self.objective,
            "measured": measured,
            "limit": self.limit,
            "unit": self.unit,
            "is_floor": self.is_floor,
            "is_met": self.is_met,
        }

    def _amount(self, value: float) -> str:
        if value != value:
            return "nothing"
        digits = f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"
        return f"{digits} {self.unit}".rstrip()


def table(levels: Sequence[Level]) -> str:
    """All objectives, one a line, in Markdown."""
    rows = [HEADINGS, *(level.cells() for level in levels)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["| " + " | ".join(map(str.ljust, row, widths)) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]])


def are_met(levels: Sequence[Level]) -> bool:
    """Whether something was measured, and no limit broken."""
    return bool(levels) and all(level.is_met for level in levels)


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One kind of request, as the load generator saw it.

    Args:
        requests: How many were answered or failed.
        failures: Wrong answers, faults and lost connections; an orderly refusal is none.
        latency_ms: So many milliseconds at most took this share, 0 to 1, of them.
    """

    requests: int
    failures: int
    latency_ms: Callable[[float], float]


@dataclass(frozen=True, kw_only=True)
class Objectives:
    """The service level that users were promised.

    Args:
        latency_ms: Longest permitted percentiles of each kind of request: milliseconds by share, 0 to 1.
        failures: Largest permitted share of failed requests, 0 to 1.
        refusals: Largest permitted share of refused requests, 0 to 1.
    """

    latency_ms: Mapping[str, Mapping[float, float]]
    failures: float = 0.0
    refusals: float = 0.01

    def levels(self, measured: Mapping[str, Measured]) -> list[Level]:
        """How a run did.

        Args:
            measured: By kind of request, with orderly refusals under REFUSED. A kind that never ran is a
                miss: a run that tested nothing must not pass.
        """
        return [*self._latencies(measured), *self._faults(measured)]

    def _latencies(self, measured: Mapping[str, Measured]) -> Iterator[Level]:
        for kind, limits in self.latency_ms.items():
            ran = kind in measured and measured[kind].requests > 0
            for share, limit in limits.items():
                value = measured[kind].latency_ms(share) if ran else float("nan")
                yield Level(objective=f"{kind}: p{share * 100:g}", measured=value, limit=limit, unit="ms")

    def _faults(self, measured: Mapping[str, Measured]) -> Iterator[Level]:
        total = sum(kind.requests for kind in measured.values())
        failed = sum(kind.failures for kind in measured.values())
        refused = measured[REFUSED].requests if REFUSED in measured else 0
        for name, count, limit in (("failed", failed, self.failures), ("refused", refused, self.refusals)):
            share = 100 * count / total if total else float("nan")
            yield Level(objective=f"{name}, of all requests", measured=share, limit=100 * limit, unit="%")
