"""What a load test must show for its run to count as passed."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

REFUSED = "refused"


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One kind of request, as the load generator saw it.

    Args:
        requests: How many were answered or failed.
        failures: Wrong answers, faults and lost connections; an orderly refusal is none.
        p95_ms: 95 of 100 took at most so many milliseconds.
    """

    requests: int
    failures: int
    p95_ms: float


@dataclass(frozen=True, kw_only=True)
class Objectives:
    """The service level that users were promised.

    Args:
        p95_ms: Longest permitted 95th percentile of each kind of request, milliseconds.
        failures: Largest permitted share of failed requests, 0 to 1.
        refusals: Largest permitted share of refused requests, 0 to 1.
    """

    p95_ms: Mapping[str, float]
    failures: float = 0.0
    refusals: float = 0.01

    def missed(self, measured: Mapping[str, Measured]) -> list[str]:
        """A line for each objective that was missed; empty when all were met.

        Args:
            measured: By kind of request, with orderly refusals under REFUSED. A kind that never ran is a
                miss: a run that tested nothing must not pass.
        """
        return [*self._slow(measured), *self._unreliable(measured)]

    def _slow(self, measured: Mapping[str, Measured]) -> Iterator[str]:
        for kind, limit in self.p95_ms.items():
            if kind not in measured or measured[kind].requests == 0:
                yield f"{kind}: no request was made"
            elif measured[kind].p95_ms > limit:
                yield f"{kind}: p95 is {measured[kind].p95_ms:.0f} ms, must be at most {limit:.0f} ms"

    def _unreliable(self, measured: Mapping[str, Measured]) -> Iterator[str]:
        total = sum(kind.requests for kind in measured.values())
        failed = sum(kind.failures for kind in measured.values())
        refused = measured[REFUSED].requests if REFUSED in measured else 0
        for name, count, limit in (("failed", failed, self.failures), ("refused", refused, self.refusals)):
            if count > limit * total:
                yield f"{count} of {total} requests {name}, at most {limit:.1%} may"
