"""The dashboard and the alerts speak of metrics that the service really has."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from app.telemetry.metrics import Metrics

DEPLOY = Path(__file__).parents[2] / "deploy"
DASHBOARD = json.loads((DEPLOY / "grafana/dashboards/dragoman.json").read_text(encoding="utf-8"))
RULES = yaml.safe_load((DEPLOY / "prometheus/rules.yml").read_text(encoding="utf-8"))["groups"][0]["rules"]
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
RULE_TESTS = yaml.safe_load((DEPLOY / "prometheus/rules_test.yml").read_text(encoding="utf-8"))["tests"]
SERIES = re.compile(r"\b(?:dragoman|process)_\w+")
LABELLED = re.compile(r"\b((?:dragoman|process)_\w+)\{([^}]*)\}")
# Prometheus puts these on every series.
OF_THE_TARGET = {"instance", "job"}


def published() -> dict[str, set[str]]:
    """Each series of the service with its labels, `le` included."""
    metrics = Metrics()
    collectors = metrics.registry._collector_to_names
    labels = {each._name: {*each._labelnames} for each in collectors if hasattr(each, "_labelnames")}
    series: dict[str, set[str]] = {}
    for family in metrics.registry.collect():
        name, own = family.name, labels.get(family.name, set()) | OF_THE_TARGET
        match family.type:
            case "counter":
                series[f"{name}_total"] = own
            case "histogram":
                series |= {f"{name}_bucket": own | {"le"}, f"{name}_sum": own, f"{name}_count": own}
            case _:
                series[name] = own
    return series


def expressions() -> Iterator[str]:
    yield from (target["expr"] for panel in PANELS for target in panel["targets"])
    yield from (rule["expr"] for rule in RULES)


def test_expressions_name_only_series_and_labels_that_exist() -> None:
    series = published()
    for expression in expressions():
        assert set(SERIES.findall(expression)) <= series.keys(), expression
        for name, matchers in LABELLED.findall(expression):
            assert set(re.findall(r"(\w+)\s*[=!]", matchers)) <= series[name], expression


def test_expressions_group_by_labels_that_their_series_have() -> None:
    series = published()
    for expression in expressions():
        named = SERIES.findall(expression) or series
        known = OF_THE_TARGET.union(*(series[name] for name in named))
        for grouping in re.findall(r"\bby \(([^)]*)\)", expression):
            assert {label.strip() for label in grouping.split(",")} <= known, expression


def test_the_dashboard_shows_every_metric() -> None:
    shown = set(SERIES.findall(json.dumps(DASHBOARD)))
    ours = {name for name in published() if name.startswith("dragoman_")}
    assert _metrics(ours) <= _metrics(shown)


def _metrics(series: set[str]) -> set[str]:
    return {re.sub(r"_(bucket|sum|count)$", "", name) for name in series}


def test_alerts_on_recorded_series_have_their_recording_rule() -> None:
    recorded = {rule["record"] for rule in RULES if "record" in rule}
    used = {name for rule in RULES for name in re.findall(r"dragoman:[\w:]+", rule["expr"])}
    assert used <= recorded


def test_panels_are_distinct_and_lie_side_by_side() -> None:
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    cells = [cell for panel in DASHBOARD["panels"] for cell in _cells(panel["gridPos"])]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24


def _cells(place: dict[str, int]) -> list[tuple[int, int]]:
    columns = range(place["x"], place["x"] + place["w"])
    return [(x, y) for x in columns for y in range(place["y"], place["y"] + place["h"])]


def test_panels_use_the_provisioned_data_source() -> None:
    provisioning = DEPLOY / "grafana/provisioning/datasources/prometheus.yml"
    uids = {source["uid"] for source in yaml.safe_load(provisioning.read_text())["datasources"]}
    assert {panel["datasource"]["uid"] for panel in PANELS} <= uids


def test_every_alert_is_seen_to_fire_and_not_to_fire() -> None:
    alerts = {rule["alert"] for rule in RULES if "alert" in rule}
    cases = [case for test in RULE_TESTS for case in test["alert_rule_test"]]
    assert {case["alertname"] for case in cases if case.get("exp_alerts")} == alerts
    assert {case["alertname"] for case in cases if not case.get("exp_alerts")} == alerts


def test_every_alert_says_what_to_do() -> None:
    guide = (DEPLOY.parent / "docs/monitoring.md").read_text(encoding="utf-8")
    assert {rule["alert"] for rule in RULES if "alert" in rule} <= set(re.findall(r"Dragoman\w+", guide))


needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool is missing; the Debian package prometheus has it"
)


@needs_promtool
def test_the_alerts_fire_when_they_should() -> None:
    for arguments in (["check", "config", "prometheus.yml"], ["test", "rules", "rules_test.yml"]):
        subprocess.run(["promtool", *arguments], cwd=DEPLOY / "prometheus", check=True, timeout=60)


@needs_promtool
def test_a_scrape_is_as_prometheus_wants_it() -> None:
    subprocess.run(["promtool", "check", "metrics"], input=Metrics().exposition(), check=True, timeout=60)
