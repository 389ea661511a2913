"""What Prometheus sees: every metric of the service, with labels whose values are bounded."""

from collections import Counter as Counts
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache, partial
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
from prometheus_client.samples import Sample

from app.backend import Model
from app.telemetry.shared_metrics import SharedMetrics
from model.decoding.runner import Progress
from model.translation.quality_checks import KINDS, Kind

PREFIX: Final = "dragoman"
OUTCOMES: Final = ("answered", "refused", "abandoned")
UNMATCHED: Final = "unmatched"
"""The endpoint label of all paths that the service does not have."""
ReloadOutcome = Literal["replaced", "unchanged", "failed"]
FailureReason = Literal["non_finite", "out_of_memory", "fault"]
LoadOutcome = Literal["loaded", "failed"]
EvictionReason = Literal["memory", "idle", "removed"]
SecondAttemptOutcome = Literal["kept", "discarded", "impossible"]
Readable = Literal["gpu_memory_bytes", "cuda_graphs", "requests_by_key"]
"""The metrics that `Metrics.watch` reads: one label each, whose values may disappear."""
_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_SIZES: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)

# The time at which a series began is not needed, and would double the number of series.
disable_created_metrics()  # type: ignore[no-untyped-call]


class Metrics:
    """One application's metrics, in a registry of their own. Times are seconds.

    Args:
        shared: Adds up the metrics of several processes; None if there is one process.
    """

    def __init__(self, shared: SharedMetrics | None = None) -> None:
        self.registry = CollectorRegistry()
        self._shared = shared
        # What `publish` calls.
        self._published: list[Callable[[], None]] = []
        self._shown: dict[Gauge, Collection[tuple[str, ...]]] = {}
        if shared is None:
            ProcessCollector(registry=self.registry)
        # Looking a series up costs as much as adding to it; there are as many as endpoints times statuses.
        self._series = cache(Counter.labels)
        # In the order of the documentation.
        self._ready = self._gauge(
            "ready", "1 while requests are served; 0 while loading, stuck or shutting down.", mode="livemax"
        )
        self._requests = self._counter(
            "requests",
            "Finished requests; status 499: the client closed the connection.",
            "endpoint",
            "status",
        )
        self._request_duration = self._histogram(
            "request_duration_seconds", "Time from the request's head to the end of the answer.", "endpoint"
        )
        self._accepted = self._counter("accepted", "Requests that arrived, including those refused unread.")
        self._outcomes = self._counter(
            "outcomes", "Accepted requests by how they ended.", "outcome", first=OUTCOMES
        )
        self._in_flight = self._gauge("requests_in_flight", "Requests in progress.")
        self._workers = self._gauge("workers", "Decoding threads.")
        self._queue_wait = self._histogram("queue_wait_seconds", "Time that a sentence waits for an engine.")
        self._queue_depth = self._gauge("queue_depth", "Sentences in the queue.")
        self._queued_tokens = self._gauge(
            "queued_tokens", "Source tokens in the queue, multiplied by the beam size."
        )
        self._queued_tokens_limit = self._gauge("queued_tokens_limit", "Upper limit of queued_tokens.")
        self._decode_step = self._histogram(
            "decode_step_seconds", "One decoder step, which adds a token to every running hypothesis."
        )
        self._batch_sentences = self._histogram(
            "batch_sentences", "Sentences in the running batch, observed at each step.", buckets=_SIZES
        )
        self._batch_rows = self._histogram(
            "batch_rows", "Hypotheses in the running batch, observed at each step.", buckets=_SIZES
        )
        self._encode = self._histogram(
            "encode_seconds", "One encoder pass over the sentences that join together."
        )
        self._time_to_first_token = self._histogram(
            "time_to_first_token_seconds", "Time from leaving the queue to the first token."
        )
        self._source_tokens = self._counter("source_tokens", "Source tokens translated.", "pair")
        self._target_tokens = self._counter("target_tokens", "Target tokens produced.", "pair")
        self._rejected = self._counter(
            "rejected",
            "Requests refused, ended by their deadline or cut off in a stream, by error code.",
            "reason",
        )
        self._cancelled = self._counter(
            "cancelled",
            "Sentences dropped because their request was cancelled.",
            "stage",
            first=("queued", "decoding"),
        )
        self._failed_sentences = self._counter(
            "failed_sentences",
            "Sentences that could not be decoded.",
            "reason",
            first=get_args(FailureReason),
        )
        self._engine_stuck = self._counter(
            "engine_stuck", "Times an engine made no step for DRAGOMAN_WATCHDOG_SECONDS although it had work."
        )
        self._reloads = self._counter(
            "reloads", "Reloads of the checkpoints.", "outcome", first=get_args(ReloadOutcome)
        )
        self._degenerate_output = self._counter(
            "degenerate_output", "First translations that look broken.", "kind", first=KINDS
        )
        self._degenerate_retries = self._counter(
            "degenerate_retries",
            "Second attempts at translations that look broken.",
            "outcome",
            first=get_args(SecondAttemptOutcome),
        )
        self._model_loads = self._counter(
            "model_loads", "Attempts to load a checkpoint.", "outcome", first=get_args(LoadOutcome)
        )
        self._model_load_duration = self._histogram(
            "model_load_duration_seconds", "Time to load and verify a checkpoint."
        )
        self._model_evictions = self._counter(
            "model_evictions", "Checkpoints that left memory.", "reason", first=get_args(EvictionReason)
        )
        self._models_listed = self._gauge(
            "models_listed", "Checkpoints that requests may ask for.", mode="livemax"
        )
        self._models_loaded = self._gauge("models_loaded", "Checkpoints in memory.", mode="livemax")
        self._model_info = self._gauge(
            "model_info",
            "Loaded checkpoints.",
            "name",
            "version",
            "checksum",
            "device",
            "precision",
            mode="livemax",
        )
        self._model_memory = self._gauge("model_memory_bytes", "Memory of each loaded checkpoint.", "name")
        self._model_memory_limit = self._gauge(
            "model_memory_limit_bytes", "Upper limit of the sum of model_memory_bytes; 0 without a limit."
        )
        self._model_load_seconds = self._gauge(
            "model_load_seconds", "Time to load all loaded checkpoints.", mode="livemax"
        )
        # Read at each scrape; empty on a CPU, and without API keys.
        self._read: dict[Readable, Callable[[], Mapping[str, int]]] = {}
        self._readable("gpu_memory_bytes", "Accelerator memory.", "kind")
        self._readable(
            "cuda_graphs",
            "Shapes of decoder steps on a GPU: recorded ones, and eager ones, whose recording failed.",
            "state",
        )
        self._readable(
            "requests_by_key", "Admitted requests by the name of their API key.", "name", is_counter=True
        )
        self._duration = cache(self._request_duration.labels)
        self._count_lost()

    def expect_endpoints(self, endpoints: Iterable[str], status: int) -> None:
        """Show these paths with this status from the start: a rate needs a zero before the first request."""
        for endpoint in endpoints:
            self._series(self._requests, endpoint, str(status))
            self._duration(endpoint)

    def expect_rejections(self, codes: Iterable[str]) -> None:
        """Show these error codes from the start."""
        self._begin_at_zero(self._rejected, codes)

    def watch_process(self, *, is_ready: Callable[[], bool], in_flight: Callable[[], int]) -> None:
        """Read whether the process is ready and its requests in flight at each scrape."""
        self._set_function(self._ready, is_ready)
        if self._shared is None:
            self._set_function(self._in_flight, in_flight)

    def watch_queue(
        self, depth: Callable[[], int], tokens: Callable[[], int], *, max_tokens: int, workers: int
    ) -> None:
        """Show these workers and the limit of their queue, and read the queue's gauges at each scrape."""
        self._workers.set(workers)
        self._queued_tokens_limit.set(max_tokens)
        self._set_function(self._queue_depth, depth)
        self._set_function(self._queued_tokens, tokens)

    @property
    def queued_tokens(self) -> float:
        """Source tokens in the queue, multiplied by the beam size."""
        (family,) = self._queued_tokens.collect()
        return family.samples[0].value

    def watch(self, name: Readable, read: Callable[[], Mapping[str, int]]) -> None:
        """Read the values of a metric by label at each scrape."""
        self._read[name] = read

    def graphs(self) -> Mapping[str, int]:
        """Shapes of decoder steps on a GPU by state, `recorded` and `eager`; empty on a CPU."""
        return self._read["cuda_graphs"]()

    def list_models(self, models: Sequence[Model], max_bytes: int) -> None:
        """Show these checkpoints, in place of those listed before.

        Args:
            models: All checkpoints.
            max_bytes: Most memory of the loaded ones; 0 for no limit.
        """
        self._models_listed.set(len(models))
        self._model_memory_limit.set(max_bytes)
        # The series of many pairs would fill every scrape, so that these begin with their first text.
        cards = [model.card for model in models if not model.card.sides]
        pairs = ["-".join(pair) for card in cards for pair in card.pairs]
        self._begin_at_zero(self._source_tokens, pairs)
        self._begin_at_zero(self._target_tokens, pairs)

    def show_models(self, models: Iterable[Model]) -> None:
        """Show which of these checkpoints are loaded, in place of those shown before."""
        loaded = [(model, model.loaded) for model in models if model.loaded is not None]
        described = [
            (model.card.name, model.version, model.checksum, model.device, model.precision)
            for model, _ in loaded
        ]
        self._replace(self._model_info, dict.fromkeys(described, 1))
        self._replace(self._model_memory, {(model.card.name,): each.memory_bytes for model, each in loaded})
        self._models_loaded.set(len(loaded))
        self._model_load_seconds.set(sum(each.seconds for _, each in loaded))

    def count_rejection(self, code: str) -> None:
        """Count a request that was refused, came too late or was cut off, by its error code."""
        self._series(self._rejected, code).inc()

    def count_failed_sentence(self, reason: FailureReason) -> None:
        """Count a sentence that could not be decoded."""
        self._series(self._failed_sentences, reason).inc()

    def count_degenerate(self, kind: Kind) -> None:
        """Count a first translation that looks broken."""
        self._series(self._degenerate_output, kind).inc()

    def count_second_attempt(self, outcome: SecondAttemptOutcome) -> None:
        """Count a second attempt at a translation that looks broken."""
        self._series(self._degenerate_retries, outcome).inc()

    def count_reload(self, outcome: ReloadOutcome) -> None:
        """Count a reload of the checkpoints."""
        self._series(self._reloads, outcome).inc()

    def count_eviction(self, reason: EvictionReason) -> None:
        """Count a checkpoint that left memory."""
        self._series(self._model_evictions, reason).inc()

    def count_load(self, outcome: LoadOutcome, seconds: float | None = None) -> None:
        """Count an attempt to load a checkpoint, and how long it took if it was loaded."""
        self._series(self._model_loads, outcome).inc()
        if seconds is not None:
            self._model_load_duration.observe(seconds)

    def count_accepted(self) -> None:
        """Count a request that arrived."""
        self._accepted.inc()

    def count_finished(self, endpoint: str, status: int, outcome: str, seconds: float) -> None:
        """Count an accepted request that is over; the outcome is one of OUTCOMES."""
        self._series(self._requests, endpoint, str(status)).inc()
        self._series(self._outcomes, outcome).inc()
        self._duration(endpoint).observe(seconds)

    def count_early_rejection(self, code: str, status: int, endpoint: str = UNMATCHED) -> None:
        """Count a request that its connection rejected, before the application saw it."""
        self.count_accepted()
        self._series(self._requests, endpoint, str(status)).inc()
        self._series(self._outcomes, "refused").inc()
        self.count_rejection(code)

    def request_totals(self) -> dict[str, int]:
        """Accepted requests, and how many ended how; the difference is in flight."""
        outcomes = {sample.labels["outcome"]: sample.value for sample in _samples(self._outcomes)}
        (accepted,) = _samples(self._accepted)
        return {"accepted": int(accepted.value)} | {name: int(outcomes[name]) for name in OUTCOMES}

    def record_queue_wait(self, seconds: float) -> None:
        """Record how long a sentence waited for an engine."""
        self._queue_wait.observe(seconds)

    def count_cancelled(self, *, queued: int, decoding: int) -> None:
        """Count withdrawn sentences, by whether they waited or ran."""
        self._series(self._cancelled, "queued").inc(queued)
        self._series(self._cancelled, "decoding").inc(decoding)

    def count_translated(self, pair: str, source_tokens: int, target_tokens: int) -> None:
        """Count the tokens of a translated text; the pair is written like `en-fr`."""
        self._series(self._source_tokens, pair).inc(source_tokens)
        self._series(self._target_tokens, pair).inc(target_tokens)

    def count_stuck_engine(self) -> None:
        """Count an engine that was found stuck."""
        self._engine_stuck.inc()

    def exposition(self) -> bytes:
        """All metrics in Prometheus' text format, the sum over all processes."""
        self.publish()
        if self._shared is None:
            return generate_latest(self.registry)
        registry = CollectorRegistry()
        registry.register(self._shared)
        return generate_latest(registry)

    def publish(self) -> None:
        """Set the metrics that only this process can read; among several, called several times a second."""
        for publish in self._published:
            publish()

    def count_progress(self, progress: Progress) -> None:
        """Count what one call of an engine has done."""
        for step in progress.steps:
            self._decode_step.observe(step.seconds)
            self._batch_sentences.observe(step.sentences)
            self._batch_rows.observe(step.rows)
        for seconds in progress.encoder_seconds:
            self._encode.observe(seconds)
        for seconds in progress.first_token_seconds:
            self._time_to_first_token.observe(seconds)

    def _begin_at_zero(self, counter: Counter, labels: Iterable[str]) -> None:
        for label in labels:
            self._series(counter, label)

    def _count_lost(self) -> None:
        """Count as abandoned what the process before this one had in flight when it was killed."""
        totals = self.request_totals()
        accepted = totals.pop("accepted")
        self._series(self._outcomes, "abandoned").inc(accepted - sum(totals.values()))

    def _set_function(self, gauge: Gauge, read: Callable[[], float]) -> None:
        """Read a gauge at each scrape, or among several processes at each `publish`."""
        if self._shared is None:
            gauge.set_function(read)
        else:
            self._published.append(lambda: gauge.set(read()))

    def _replace(self, gauge: Gauge, series: Mapping[tuple[str, ...], float]) -> None:
        """Show these series of a gauge, by their labels, in place of those shown before."""
        if self._shared is None:
            gauge.clear()
        else:  # files cannot forget a series
            for labels in self._shown.get(gauge, ()):
                gauge.labels(*labels).set(0)
            self._shown[gauge] = list(series)
        for labels, value in series.items():
            gauge.labels(*labels).set(value)

    def _readable(self, name: Readable, text: str, label: str, *, is_counter: bool = False) -> None:
        """Make a metric of one label that `publish` reads, once `watch` says how; it is empty before that."""
        self._read[name] = dict
        make = self._counter if is_counter else self._gauge
        self._published.append(partial(self._publish_read, name, make(name, text, label), Counts()))

    def _publish_read(self, name: Readable, metric: Gauge | Counter, seen: Counts[str]) -> None:
        """Set a gauge to what is read; add to a counter what has been added since the last time."""
        if self._shared is None:
            metric.clear()
            seen.clear()
        for label, value in self._read[name]().items():
            series = metric.labels(label)
            if isinstance(series, Gauge):
                series.set(value)
            else:
                series.inc(max(0, value - seen[label]))
                seen[label] = value

    def _counter(self, name: str, text: str, *labels: str, first: Iterable[str] = ()) -> Counter:
        """A counter that shows its `first` labels before any event: a rate needs a zero before the first."""
        counter = Counter(name, text, labels, namespace=PREFIX, registry=self.registry)
        self._begin_at_zero(counter, first)
        return counter

    def _gauge(
        self, name: str, text: str, *labels: str, mode: Literal["livesum", "livemax"] = "livesum"
    ) -> Gauge:
        """A gauge that shows the sum over all processes, or the highest value of any."""
        return Gauge(name, text, labels, namespace=PREFIX, registry=self.registry, multiprocess_mode=mode)

    def _histogram(
        self, name: str, text: str, *labels: str, buckets: Sequence[float] = _SECONDS
    ) -> Histogram:
        return Histogram(name, text, labels, namespace=PREFIX, registry=self.registry, buckets=buckets)


def _samples(counter: Counter) -> list[Sample]:
    (family,) = counter.collect()
    return list(family.samples)
