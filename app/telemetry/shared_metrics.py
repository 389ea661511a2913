"""Metrics of several processes: each keeps its values in files, and any of them adds all up at a scrape.

A process that replaces another goes on with the files of that one, so that no count is lost. The files are
those of prometheus-client's multiprocess mode (https://prometheus.github.io/client_python/multiprocess/).
"""

import os
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from prometheus_client import ProcessCollector, multiprocess, values
from prometheus_client.core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

# Gauges whose series end with what they describe: files cannot forget a series, so zero stands for that.
_ENDING: Final = ("dragoman_model_info", "dragoman_model_memory_bytes")
_IN_FLIGHT: Final = "dragoman_requests_in_flight"
_LATEST: Final = "process_start_time_seconds"
# prometheus-client's files of a process, and the bytes allocated for each: enough for 2,000 language pairs,
# or 1,500 versions of a model.
_SUMS: Final = ("counter", "histogram")
_GAUGES: Final = ("gauge_livesum", "gauge_livemax")
_FILE_BYTES: Final = 2**19


class SharedMetrics(Collector):
    """The sum of the metrics of all processes; made before the metrics of this process.

    Args:
        folder: Where the files of all processes are.
        index: Number of this process.
        pids: Returns the ids of the processes that run.

    Raises:
        OSError: If there is no space for the files.
    """

    def __init__(self, folder: Path, index: int, pids: Callable[[], Iterable[int]]) -> None:
        folder.mkdir(exist_ok=True)
        self._folder = folder
        self._pids = pids
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(folder)
        for kind in (*_SUMS, *_GAUGES):
            # A gauge of the process before this one says nothing of this one.
            _allocate(folder / f"{kind}_{index}.db", is_cleared=kind in _GAUGES)
        values.ValueClass = values.MultiProcessValue(lambda: index)  # type: ignore[no-untyped-call]

    def collect(self) -> Iterator[Metric]:
        """The metrics of all processes; those of a process that has ended stay in the sums."""
        collector = multiprocess.MultiProcessCollector(None, str(self._folder))  # type: ignore[no-untyped-call]
        gauge = Metric(_IN_FLIGHT, "Requests in progress.", "gauge")
        in_flight = 0.0
        for metric in collector.collect():  # type: ignore[no-untyped-call]
            if metric.name == _IN_FLIGHT:
                continue
            if metric.name in _ENDING:
                metric.samples = [sample for sample in metric.samples if sample.value]
            elif metric.name == "dragoman_accepted":
                in_flight += sum(sample.value for sample in metric.samples)
            elif metric.name == "dragoman_outcomes":
                in_flight -= sum(sample.value for sample in metric.samples)
            yield metric
        # From the same two counters, so that the totals add up although the processes go on.
        gauge.add_sample(gauge.name, {}, in_flight)
        yield gauge
        yield from self._process_metrics()

    def _process_metrics(self) -> Iterator[Metric]:
        """The sums over all processes; of the times of their starts, the latest."""
        found: dict[str, list[Metric]] = defaultdict(list)
        for pid in self._pids():
            for metric in ProcessCollector(pid=lambda pid=pid: pid, registry=None).collect():  # type: ignore[misc]
                found[metric.name].append(metric)
        for name, metrics in found.items():
            samples = [metric.samples[0] for metric in metrics]
            total = max if name == _LATEST else sum
            first = samples[0]
            value = total(sample.value for sample in samples)
            metrics[0].samples = [Sample(first.name, first.labels, value)]
            yield metrics[0]


def _allocate(path: Path, *, is_cleared: bool) -> None:
    """Allocate all blocks of a file: a write to a mapped one for which there is no space ends the process."""
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if sys.platform == "linux":
            os.posix_fallocate(file, 0, _FILE_BYTES)
        if is_cleared:
            os.pwrite(file, bytes(os.fstat(file).st_size), 0)
    finally:
        os.close(file)
