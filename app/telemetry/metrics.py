"""What Prometheus sees: every metric of the service, with labels whose values are bounded."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, Literal, get_args

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from app.backend import LoadedModel
from app.telemetry.fast_histograms import FastHistograms
from model.translation.quality_checks import KINDS

PREFIX: Final = "dragoman"
OUTCOMES: Final = ("answered", "refused", "abandoned")
UNMATCHED: Final = "unmatched"
"""The endpoint of all paths that are none of ours."""
RELOAD_OUTCOMES: Final = ("replaced", "unchanged", "failed")
FailureReason = Literal["non_finite", "out_of_memory", "fault"]
_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_SIZES: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)

# When a series began is of no use to anyone, and would double their number.
disable_created_metrics()  # type: ignore[no-untyped-call]


class Metrics:
    """One application's metrics, in a registry of their own. Times are seconds.

    It is also the Observer that the workers hand to the engines.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.ready = self._gauge(
            "ready", "1 while requests are served; 0 while loading, stuck or shutting down."
        )
        self.requests = self._counter(
            "requests",
            "Finished requests; status 499: the client closed the connection.",
            "endpoint",
            "status",
        )
        self.request_duration = self._histogram(
            "request_duration_seconds", "Time from the request's head to the end of the answer.", "endpoint"
        )
        self.accepted = self._counter("accepted", "Requests that arrived, including those refused unread.")
        self.outcomes = self._counter("outcomes", "Accepted requests by how they ended.", "outcome")
        self.in_flight = self._gauge("requests_in_flight", "Requests in progress.")
        self.workers = self._gauge("workers", "Decoding threads.")
        self.queue_wait = self._histogram("queue_wait_seconds", "Time that a sentence waits for an engine.")
        self.queue_depth = self._gauge("queue_depth", "Sentences in the queue.")
        self.queued_tokens = self._gauge(
            "queued_tokens", "Source tokens in the queue, multiplied by the beam size."
        )
        self.queued_tokens_limit = self._gauge("queued_tokens_limit", "Upper limit of queued_tokens.")
        self._steps = FastHistograms(
            PREFIX,
            {
                "decode_step_seconds": (
                    "One decoder step, which adds a token to every running hypothesis.",
                    _SECONDS,
                ),
                "batch_sentences": ("Sentences in the running batch, observed at each step.", _SIZES),
                "batch_rows": ("Hypotheses in the running batch, observed at each step.", _SIZES),
            },
        )
        self.registry.register(self._steps)
        self.encode = self._histogram(
            "encode_seconds", "One encoder pass over the sentences that join together."
        )
        self.time_to_first_token = self._histogram(
            "time_to_first_token_seconds", "Time from leaving the queue to the first token."
        )
        self.source_tokens = self._counter("source_tokens", "Source tokens translated.", "pair")
        self.target_tokens = self._counter("target_tokens", "Target tokens produced.", "pair")
        self.rejected = self._counter(
            "rejected",
            "Requests refused, ended by their deadline or cut off in a stream, by error code.",
            "reason",
        )
        self.cancelled = self._counter(
            "cancelled", "Sentences dropped because their request was cancelled.", "stage"
        )
        self.failed = self._counter("failed_sentences", "Sentences that could not be decoded.", "reason")
        self.engine_stuck = self._counter(
            "engine_stuck", "Times an engine made no step for DRAGOMAN_WATCHDOG_SECONDS although it had work."
        )
        self.reloads = self._counter("reloads", "Reloads of the checkpoints.", "outcome")
        self.degenerate = self._counter("degenerate_output", "First translations that look broken.", "kind")
        self.retries = self._counter(
            "degenerate_retries", "Second attempts at translations that look broken.", "outcome"
        )
        self.model_info = self._gauge(
            "model_info", "Loaded checkpoints.", "name", "version", "checksum", "device", "precision"
        )
        self.model_load = self._gauge("model_load_seconds", "Time to load all checkpoints.")
        self._memory = _MemoryCollector()
        self.registry.register(self._memory)
        self._uses = _UsesCollector()
        self.registry.register(self._uses)
        _begin_at_zero(self.outcomes, OUTCOMES)
        _begin_at_zero(self.cancelled, ("queued", "decoding"))
        _begin_at_zero(self.failed, get_args(FailureReason))
        _begin_at_zero(self.degenerate, KINDS)
        _begin_at_zero(self.retries, ("kept", "discarded", "impossible"))
        _begin_at_zero(self.reloads, RELOAD_OUTCOMES)

    def expect_endpoints(self, endpoints: Iterable[str], status: int) -> None:
        """Show these paths with this status from the start: a rate needs a zero before the first request."""
        for endpoint in endpoints:
            self.requests.labels(endpoint, str(status))
            self.request_duration.labels(endpoint)

    def expect_rejections(self, reasons: Iterable[str]) -> None:
        """Show these error codes from the start."""
        _begin_at_zero(self.rejected, reasons)

    def count_early_rejection(self, code: str, status: int, endpoint: str = UNMATCHED) -> None:
        """Count a request that was refused before anybody else heard of it.

        Args:
            code: Of the error; one of a closed set.
            status: Of the answer.
            endpoint: Where it was sent to, if that is one of our paths.
        """
        self.requests.labels(endpoint, str(status)).inc()
        self.accepted.inc()
        self.outcomes.labels("refused").inc()
        self.rejected.labels(code).inc()

    def request_totals(self) -> dict[str, int]:
        """Requests that were accepted, and what became of them; what is missing is in flight."""
        outcomes = {sample.labels["outcome"]: sample.value for sample in _samples(self.outcomes)}
        (accepted,) = _samples(self.accepted)
        return {"accepted": int(accepted.value)} | {name: int(outcomes[name]) for name in OUTCOMES}

    def watch_queue(self, depth: Callable[[], int], tokens: Callable[[], int]) -> None:
        """Read the backlog's gauges when Prometheus asks, from then on."""
        self.queue_depth.set_function(depth)
        self.queued_tokens.set_function(tokens)

    def watch_memory(self, memory: Callable[[], Mapping[str, int]]) -> None:
        """Read accelerator memory by kind when Prometheus asks, from then on."""
        self._memory.read = memory

    def watch_keys(self, uses: Callable[[], Mapping[str, int]]) -> None:
        """Read the uses of API keys by their owner when Prometheus asks, from then on."""
        self._uses.read = uses

    def count_cancelled(self, *, queued: int, decoding: int) -> None:
        """Count sentences that were taken back, by how far they had come."""
        self.cancelled.labels("queued").inc(queued)
        self.cancelled.labels("decoding").inc(decoding)

    def describe_all(self, models: Iterable[LoadedModel]) -> None:
        """Announce the loaded checkpoints, in the place of those announced before."""
        self.model_info.clear()
        self.model_load.set(0)
        for model in models:
            self._describe(model)

    def _describe(self, model: LoadedModel) -> None:
        card = model.card
        self.model_info.labels(card.name, model.version, model.checksum, model.device, model.precision).set(1)
        self.model_load.inc(model.load_seconds)
        pairs = ["-".join(pair) for pair in card.pairs]
        _begin_at_zero(self.source_tokens, pairs)
        _begin_at_zero(self.target_tokens, pairs)

    def exposition(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self.registry)

    def encoded(self, seconds: float) -> None:
        """See Observer."""
        self.encode.observe(seconds)

    def stepped(self, seconds: float, rows: int, sentences: int) -> None:
        """See Observer."""
        self._steps.add(seconds, sentences, rows)

    def first_token(self, seconds: float) -> None:
        """See Observer."""
        self.time_to_first_token.observe(seconds)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(name, text, labels, namespace=PREFIX, registry=self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(name, text, labels, namespace=PREFIX, registry=self.registry)

    def _histogram(self, name: str, text: str, *labels: str) -> Histogram:
        return Histogram(name, text, labels, namespace=PREFIX, registry=self.registry, buckets=_SECONDS)


def _samples(counter: Counter) -> list[Sample]:
    (family,) = counter.collect()
    return list(family.samples)


def _begin_at_zero(counter: Counter, labels: Iterable[str]) -> None:
    for label in labels:
        counter.labels(label)


class _MemoryCollector(Collector):
    """`gpu_memory_bytes{kind}`, read at the moment Prometheus asks.

    Attributes:
        read: Gives bytes by kind.
    """

    def __init__(self) -> None:
        self.read: Callable[[], Mapping[str, int]] = dict

    def collect(self) -> list[Metric]:
        """One gauge, with a sample a kind; without samples on a CPU."""
        family = GaugeMetricFamily(f"{PREFIX}_gpu_memory_bytes", "Accelerator memory.", labels=["kind"])
        for kind, size in self.read().items():
            family.add_metric([kind], size)
        return [family]


class _UsesCollector(Collector):
    """`requests_by_key_total{name}`, read at the moment Prometheus asks: who has no key any more is gone.

    Attributes:
        read: Gives uses by the owner's name.
    """

    def __init__(self) -> None:
        self.read: Callable[[], Mapping[str, int]] = dict

    def collect(self) -> list[Metric]:
        """One counter, with a sample an owner; without samples where no key is needed."""
        text = "Admitted requests by the name of their API key."
        family = CounterMetricFamily(f"{PREFIX}_requests_by_key", text, labels=["name"])
        for name, uses in self.read().items():
            family.add_metric([name], uses)
        return [family]
