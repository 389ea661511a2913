"""The table of metrics in the documentation is what the registry has."""

from pathlib import Path

from prometheus_client.core import Metric

from app.telemetry.metrics import PREFIX, Metrics
from tests.docs.tables import assert_is_in

PAGE = Path(__file__).parents[2] / "docs/monitoring.md"


def _labels(metrics: Metrics) -> dict[str, tuple[str, ...]]:
    collectors = metrics.registry._collector_to_names
    return {each._name: each._labelnames for each in collectors if hasattr(each, "_labelnames")}


def _row(family: Metric, labels: tuple[str, ...]) -> str:
    name = family.name + ("_total" if family.type == "counter" else "")
    shown = f"{name}{{{','.join(labels)}}}" if labels else name
    return f"| `{shown.removeprefix(f'{PREFIX}_')}` | {family.type} | {family.documentation} |\n"


def _table() -> str:
    metrics = Metrics()
    families = [family for family in metrics.registry.collect() if family.name.startswith(PREFIX)]
    labels = _labels(metrics)
    rows = [_row(family, labels[family.name]) for family in families]
    return f"| `{PREFIX}_…` | kind | |\n|---|---|---|\n" + "".join(rows)


def test_every_metric_is_documented_as_it_is() -> None:
    assert_is_in(PAGE, "metrics", _table())
