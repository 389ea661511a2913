"""The metrics of all replicas, as one exposition with a label `replica`."""

from collections.abc import Iterable, Mapping, Sequence

from prometheus_client import generate_latest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector, CollectorRegistry


def combined(expositions: Mapping[str, str]) -> bytes:
    """Returns one exposition of several, whose samples have the label `replica`.

    Args:
        expositions: Each in Prometheus' text format, by the name of the replica.
    """
    families: dict[str, Metric] = {}
    for replica, text in expositions.items():
        for family in text_string_to_metric_families(text):
            known = families.setdefault(family.name, Metric(family.name, family.documentation, family.type))
            known.samples += [
                sample._replace(labels={**sample.labels, "replica": replica}) for sample in family.samples
            ]
    registry = CollectorRegistry()
    registry.register(_Families(list(families.values())))
    return generate_latest(registry)


class _Families(Collector):
    """Metrics that are complete already."""

    def __init__(self, families: Sequence[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        """Returns the metrics."""
        return self._families
