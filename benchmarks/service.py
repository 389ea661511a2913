"""How services did under the same loads: figures of each, ratios of ours to theirs, agreement."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan

from benchmarks.percentiles import median, percentile
from benchmarks.report import mebibytes, rounded
from benchmarks.rounds import ratio_of
from benchmarks.servers import Server
from benchmarks.traffic import Load, Traffic

COLUMNS = (
    "texts",
    "concurrency",
    "service",
    "requests/s",
    "p50, ms",
    "p99, ms",
    "p99 of short ones, ms",
    "cores used",
    "failed",
    "changed under load",
    "as the reference",
)
RATIO_COLUMNS = ("texts", "concurrency", "workers", "requests/s", "p50", "p99", "p99 of short ones")
COST_COLUMNS = ("service", "seconds to ready", "MiB when ready", "MiB at most")


@dataclass(frozen=True, kw_only=True)
class Showing:
    """One service under one load, all rounds.

    Attributes:
        service: Its name.
        load: What it was given.
        rounds: What each round saw.
        changed: Texts whose translation was not always the one that the service gives it alone.
        agreeing: Texts that it translates alone as the reference does.
        expected: Texts that have a reference; 0 where answers are no translations.
    """

    service: str
    load: Load
    rounds: Sequence[Traffic]
    changed: int
    agreeing: int
    expected: int

    @property
    def rate(self) -> float:
        """Good answers a second."""
        return median([each.rate for each in self.rounds])

    def latency(self, share: float, *, short: bool = False) -> float:
        """Seconds that this share of the answers took at most."""
        return median([percentile(_latencies(each, short=short), share) for each in self.rounds])

    def cells(self) -> tuple[str, ...]:
        """A row of the table."""
        texts = len(self.load.texts)
        short = self.latency(0.99, short=True)
        return (
            self.load.name,
            str(self.load.concurrency),
            self.service,
            rounded(self.rate),
            rounded(self.latency(0.5) * 1e3),
            rounded(self.latency(0.99) * 1e3),
            "–" if short != short else rounded(short * 1e3),
            f"{median([each.processor_share for each in self.rounds]):.2f}",
            str(sum(each.failures for each in self.rounds)),
            f"{self.changed} of {texts}",
            f"{self.agreeing / self.expected:.1%}" if self.expected else "–",
        )

    def to_dict(self) -> dict[str, object]:
        """Everything measured, for JSON, without the answers."""
        return {
            "kind": "service",
            "texts": self.load.name,
            "concurrency": self.load.concurrency,
            "service": self.service,
            "changed": self.changed,
            "agreeing": self.agreeing,
            "expected": self.expected,
            "rounds": [
                {
                    "rate": each.rate,
                    "requests": len(each.latencies),
                    "failures": each.failures,
                    **{
                        f"p{percent}_seconds": percentile(each.latencies, percent / 100)
                        for percent in (50, 90, 99)
                    },
                    "short_requests": len(each.short_latencies),
                    "short_p99_seconds": percentile(each.short_latencies, 0.99)
                    if each.short_latencies
                    else None,
                    "processor_share": each.processor_share,
                    "generator_share": each.generator_share,
                }
                for each in self.rounds
            ],
        }


def compare(ours: Showing, theirs: Showing) -> tuple[str, ...]:
    """Requests a second, p50, p99 and p99 of the short ones: ours divided by theirs, round by round."""
    pairs = list(zip(ours.rounds, theirs.rounds, strict=True))

    def of_latency(share: float, *, short: bool = False) -> str:
        ratios = [
            percentile(_latencies(mine, short=short), share)
            / percentile(_latencies(other, short=short), share)
            for mine, other in pairs
        ]
        return "–" if any(map(isnan, ratios)) else str(ratio_of(ratios))

    rates = [mine.rate / other.rate if other.rate else float("nan") for mine, other in pairs]
    rate = "–" if any(map(isnan, rates)) else str(ratio_of(rates))
    return rate, of_latency(0.5), of_latency(0.99), of_latency(0.99, short=True)


def changed_answers(alone: Mapping[int, frozenset[str]], rounds: Sequence[Traffic]) -> int:
    """Texts with an answer under load that is not the only one they have alone."""
    seen = [(which, answers) for each in rounds for which, answers in each.answers.items()]
    return len({which for which, answers in seen if answers != alone[which] or len(answers) != 1})


def cost_cells(server: Server) -> tuple[str, ...]:
    """What a service cost beside time: a row of the table."""
    memory = mebibytes(server.resident), mebibytes(server.memory("VmHWM"))
    return server.recipe.name, f"{server.seconds_to_ready:.1f}", *memory


def cost_dict(server: Server) -> dict[str, object]:
    """The same for JSON."""
    return {
        "kind": "service footprint",
        "service": server.recipe.name,
        "seconds_to_ready": server.seconds_to_ready,
        "resident": server.resident,
        "peak": server.memory("VmHWM"),
    }


def _latencies(traffic: Traffic, *, short: bool) -> Sequence[float]:
    return traffic.short_latencies if short else traffic.latencies
