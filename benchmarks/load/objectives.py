"""What a load test must show for its run to count as passed, and what it did show."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.harness.report import Row
from benchmarks.harness.timing import percentile
from benchmarks.load.generator import REFUSALS, Sample

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


@dataclass(kw_only=True)
class Tally:
    """What came of the requests of one kind."""

    seconds: list[float] = field(default_factory=list)  # until each good answer
    refused: int = 0  # with Retry-After
    faults: Counter[str] = field(default_factory=Counter)  # other answers, and requests without one

    def note(self, sample: Sample) -> None:
        """Count an answer."""
        if sample.status == 200:
            self.seconds.append(sample.seconds)
        elif sample.status in REFUSALS and sample.is_orderly:
            self.refused += 1
        else:
            self.faults[f"status {sample.status}"] += 1


@dataclass(frozen=True, kw_only=True)
class Objectives:
    """The service level that users were promised."""

    # Longest permitted percentiles of each kind of request: milliseconds by share, 0 to 1
    latency_ms: Mapping[str, Mapping[float, float]]
    refusals: float = 0.01  # largest permitted share of refused requests, 0 to 1
    # Two kinds of request: p99 of the second is at most twice that of the first
    compared: tuple[str, str] | None = None

    def levels(self, seen: Mapping[str, Tally], scale: float = 1) -> Iterator[Level]:
        """How a run did, by kind of request; `scale` multiplies times.

        A kind that never ran is a miss: a run that tested nothing must not pass.
        """

        def latency(kind: str, share: float) -> float:
            return 1e3 * percentile(sorted(seen[kind].seconds) if kind in seen else [], share)

        for kind, limits in self.latency_ms.items():
            for share, limit in limits.items():
                objective = f"{kind}: p{share * 100:g}"
                yield Level(
                    objective=objective, measured=latency(kind, share), limit=limit * scale, unit="ms"
                )
        failed = sum(kind.faults.total() for kind in seen.values())
        refused = sum(kind.refused for kind in seen.values())
        total = failed + refused + sum(len(kind.seconds) for kind in seen.values())
        for name, count, most in (("failed", failed, 0.0), ("refused", refused, self.refusals)):
            part = 100 * count / total if total else float("nan")
            yield Level(objective=f"{name}, of all requests", measured=part, limit=100 * most, unit="%")
        if self.compared is not None:
            alone, beside = (latency(kind, 0.99) for kind in self.compared)
            slower = beside / alone if alone else float("nan")
            objective = f"p99 {self.compared[1]}, in times of {alone:.0f} ms alone"
            yield Level(objective=objective, measured=slower, limit=_MOST_TIMES_SLOWER)
