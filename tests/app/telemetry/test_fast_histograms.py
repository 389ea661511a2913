"""FastHistograms give what Prometheus' own histograms would."""

import threading

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Histogram, generate_latest

from app.telemetry.fast_histograms import FastHistograms

BOUNDS = (0.001, 0.5, 1.0, 30.0)


@given(st.lists(st.sampled_from([0.0, 0.0005, 0.001, 0.002, 0.5, 0.7, 1.0, 29.0, 30.0, 31.0, 1e9])))
def test_fast_histograms_equal_those_of_prometheus(values: list[float]) -> None:
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    histograms = FastHistograms("dragoman", {"seconds": ("Help.", BOUNDS), "sizes": ("Others.", (1, 2))})
    ours.register(histograms)
    seconds = Histogram("seconds", "Help.", namespace="dragoman", registry=theirs, buckets=BOUNDS)
    sizes = Histogram("sizes", "Others.", namespace="dragoman", registry=theirs, buckets=(1, 2))
    for value in values:
        histograms.add(value, value + 1)
        seconds.observe(value)
        sizes.observe(value + 1)
    assert generate_latest(ours) == generate_latest(theirs)


def test_threads_lose_no_sample() -> None:
    histograms = FastHistograms("dragoman", {"seconds": ("Help.", BOUNDS)})
    threads = [threading.Thread(target=lambda: [histograms.add(0.7) for _ in range(5000)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (family,) = histograms.collect()
    assert {sample.labels.get("le"): sample.value for sample in family.samples}["1.0"] == 20_000
