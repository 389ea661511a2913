"""Writes `dashboards/dragoman.json`, which Grafana reads: `python deploy/grafana/dashboard.py`.

A new panel is one line below; a test wants every metric of the service to be in one.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

Json = dict[str, object]

WIDTH = 24
SOURCE = {"type": "prometheus", "uid": "prometheus"}
# Probes would hide what happens to those who want a translation.
WORK = 'endpoint!~"/(livez|readyz|health|metrics)"'
LAST = {"options": {"reduceOptions": {"calcs": ["lastNotNull"]}, "graphMode": "area"}}
TABLE = {
    "transformations": [
        {
            "id": "organize",
            "options": {"excludeByName": {"Time": True, "Value": True, "__name__": True, "job": True}},
        }
    ]
}


@dataclass(frozen=True)
class Panel:
    """One panel.

    Attributes:
        title: What it shows.
        unit: One of Grafana's.
        queries: PromQL, each with its legend.
        description: What else there is to know.
        kind: Grafana's name of the form.
        size: Width and height in cells of the 24 across.
        steps: From which value on which colour.
        options: Whatever else Grafana takes.
        query_options: The same for each query.
    """

    title: str
    unit: str
    queries: Sequence[tuple[str, str]]
    description: str = ""
    kind: str = "timeseries"
    size: tuple[int, int] = (8, 8)
    steps: Sequence[tuple[str, float | None]] = ()
    options: Mapping[str, object] = field(default_factory=dict)
    query_options: Mapping[str, object] = field(default_factory=dict)


def rate(metric: str, labels: str = "", by: str = "") -> str:
    """How often a counter rises in a second."""
    grouped = f"sum by ({by})" if by else "sum"
    matchers = f"{{{labels}}}" if labels else ""
    return f"{grouped} (rate(dragoman_{metric}{matchers}[$__rate_interval]))"


def share(labels: str) -> str:
    """Of the requests that want work done, how many have these labels."""
    return f"({rate('requests_total', f'{WORK}, {labels}')} or vector(0)) / {rate('requests_total', WORK)}"


def quantiles(metric: str, *levels: float, labels: str = "") -> list[tuple[str, str]]:
    """Some quantiles of a histogram, named after their level."""
    buckets = rate(f"{metric}_bucket", labels, by="le")
    return [(f"histogram_quantile({level}, {buckets})", f"p{100 * level:g}") for level in levels]


def mean(metric: str) -> str:
    """The mean of a histogram's samples."""
    return f"{rate(f'{metric}_sum')} / {rate(f'{metric}_count')}"


def number(title: str, unit: str, query: str, description: str = "", **colours: float) -> Panel:
    """One figure, as it stands now."""
    steps: list[tuple[str, float | None]] = [("green", None), *colours.items()]
    return Panel(
        title,
        unit,
        [(query, "")],
        description,
        kind="stat",
        size=(4, 4),
        steps=steps if colours else (),
        options=LAST,
    )


TRANSLATE = 'endpoint=~"/(v2/)?translate"'
ROWS: dict[str, Sequence[Panel]] = {
    "Now": (
        number("Requests", "reqps", rate("requests_total", WORK)),
        number(
            "Translation time, p99",
            "s",
            quantiles("request_duration_seconds", 0.99, labels=TRANSLATE)[0][0],
            orange=1,
            red=5,
        ),
        number("Refused (429, 503)", "percentunit", share('status=~"429|503"'), orange=0.001, red=0.05),
        number("Faults (other 5xx)", "percentunit", share('status=~"5..", status!="503"'), red=0.01),
        number(
            "Engine busy",
            "percentunit",
            "avg((rate(dragoman_encode_seconds_sum[$__rate_interval])"
            " + rate(dragoman_decode_step_seconds_sum[$__rate_interval])) / dragoman_workers)",
            "Share of the time the engine threads spend in the network. Near 100%, more load only makes a "
            "longer queue.",
            orange=0.7,
            red=0.9,
        ),
        number("Sentences waiting", "short", "sum(dragoman_queue_depth)"),
    ),
    "Requests": (
        Panel("Requests by status", "reqps", [(rate("requests_total", WORK, by="status"), "{{status}}")]),
        Panel(
            "Time of a translation request",
            "s",
            quantiles("request_duration_seconds", 0.5, 0.95, 0.99, labels=TRANSLATE),
        ),
        Panel("Requests in flight", "short", [("sum(dragoman_requests_in_flight)", "in flight")]),
        Panel(
            "What became of requests",
            "reqps",
            [
                (rate("outcomes_total", by="outcome"), "{{outcome}}"),
                (rate("accepted_total"), "accepted"),
            ],
            "At any moment: accepted = answered + refused + abandoned + in flight.",
        ),
        Panel("Refusals by reason", "reqps", [(rate("rejected_total", by="reason"), "{{reason}}")]),
        Panel(
            "Cancelled sentences",
            "ops",
            [(rate("cancelled_total", by="stage"), "{{stage}}")],
            "Nobody waited for them any more: the client left, or the deadline passed.",
        ),
    ),
    "Clients": (
        Panel(
            "Requests by API key",
            "reqps",
            [(rate("requests_by_key_total", by="name"), "{{name}}")],
            "By the names in DRAGOMAN_API_KEYS_FILE; may be empty, where no key is needed.",
        ),
    ),
    "Queue and batches": (
        Panel("Wait before the first step", "s", quantiles("queue_wait_seconds", 0.5, 0.95, 0.99)),
        Panel("Waiting sentences", "short", [("sum(dragoman_queue_depth)", "sentences")]),
        Panel(
            "Waiting tokens",
            "short",
            [
                ("sum(dragoman_queued_tokens)", "source tokens"),
                ("sum(dragoman_queued_tokens_limit)", "limit"),
            ],
            "Source tokens times the rows (beams) that each will occupy; at most DRAGOMAN_MAX_QUEUED_TOKENS.",
        ),
        Panel(
            "Batch size, mean",
            "short",
            [(mean("batch_sentences"), "sentences"), (mean("batch_rows"), "rows (beams)")],
        ),
        Panel("Time to first token", "s", quantiles("time_to_first_token_seconds", 0.5, 0.95)),
        Panel(
            "Tokens",
            "tokens/s",
            [
                (rate("target_tokens_total", by="pair"), "out {{pair}}"),
                (rate("source_tokens_total", by="pair"), "in {{pair}}"),
            ],
        ),
    ),
    "Model": (
        Panel("Decode step", "s", quantiles("decode_step_seconds", 0.5, 0.95)),
        Panel("Encoder pass", "s", quantiles("encode_seconds", 0.5, 0.95)),
        Panel(
            "Accelerator memory",
            "bytes",
            [("sum by (instance, kind) (dragoman_gpu_memory_bytes)", "{{instance}} {{kind}}")],
            "On a CPU it may be empty.",
        ),
        Panel(
            "Degenerate translations",
            "ops",
            [
                (rate("degenerate_output_total", by="kind"), "{{kind}}"),
                (rate("degenerate_retries_total", by="outcome"), "second attempt {{outcome}}"),
            ],
        ),
        Panel("Failed sentences", "ops", [(rate("failed_sentences_total", by="reason"), "{{reason}}")]),
        Panel(
            "Loaded checkpoints",
            "short",
            [("dragoman_model_info", "")],
            kind="table",
            size=(12, 8),
            options=TABLE,
            query_options={"instant": True, "format": "table"},
        ),
        number("Loading took", "s", "max(dragoman_model_load_seconds)"),
        Panel(
            "Reloads",
            "short",
            [("sum by (outcome) (increase(dragoman_reloads_total[$__rate_interval]))", "{{outcome}}")],
            size=(8, 8),
        ),
    ),
    "Process": (
        Panel(
            "Ready",
            "short",
            [
                ("min by (instance) (dragoman_ready)", "{{instance}}"),
                (
                    "max by (instance) (increase(dragoman_engine_stuck_total[$__rate_interval]))",
                    "stuck {{instance}}",
                ),
            ],
            "1 while traffic is served; an engine that stands still shows as a second line.",
        ),
        Panel("Memory", "bytes", [("sum by (instance) (process_resident_memory_bytes)", "{{instance}}")]),
        Panel(
            "Processor",
            "short",
            [("sum by (instance) (rate(process_cpu_seconds_total[$__rate_interval]))", "{{instance}}")],
            "Cores in use.",
        ),
        Panel(
            "File descriptors",
            "short",
            [
                ("sum by (instance) (process_open_fds)", "{{instance}}"),
                ("sum by (instance) (process_max_fds)", "limit {{instance}}"),
            ],
        ),
        Panel(
            "Time since the start",
            "s",
            [("time() - max by (instance) (process_start_time_seconds)", "{{instance}}")],
            "Falls to zero at a restart.",
        ),
    ),
}


def dashboard() -> Json:
    """The whole of it, as Grafana wants it."""
    return {
        "title": "Dragoman",
        "uid": "dragoman",
        "tags": ["dragoman"],
        "schemaVersion": 39,
        "version": 1,
        "editable": False,
        "refresh": "10s",
        "time": {"from": "now-30m", "to": "now"},
        "timezone": "",
        "templating": {"list": []},
        "annotations": {"list": []},
        "panels": [{"id": index} | panel for index, panel in enumerate(_panels(), start=1)],
    }


def _panels() -> Iterator[Json]:
    y = 0
    for title, panels in ROWS.items():
        place = {"x": 0, "y": y, "w": WIDTH, "h": 1}
        yield {"type": "row", "title": title, "collapsed": False, "gridPos": place, "panels": []}
        x, y, height = 0, y + 1, 0
        for panel in panels:
            width, next_height = panel.size
            if x + width > WIDTH:
                x, y, height = 0, y + height, 0
            yield _panel(panel, x, y)
            x, height = x + width, max(height, next_height)
        y += height


def _panel(panel: Panel, x: int, y: int) -> Json:
    width, height = panel.size
    defaults: Json = {"unit": panel.unit, "min": 0}
    if panel.steps:
        steps = [{"color": colour, "value": value} for colour, value in panel.steps]
        defaults["thresholds"] = {"mode": "absolute", "steps": steps}
    return {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": SOURCE,
        "gridPos": {"x": x, "y": y, "w": width, "h": height},
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "targets": [_query(panel, index) for index in range(len(panel.queries))],
        **panel.options,
    }


def _query(panel: Panel, index: int) -> Json:
    expression, legend = panel.queries[index]
    return {
        "refId": chr(ord("A") + index),
        "datasource": SOURCE,
        "expr": expression,
        "legendFormat": legend,
        **panel.query_options,
    }


if __name__ == "__main__":
    path = Path(__file__).parent / "dashboards/dragoman.json"
    path.write_text(json.dumps(dashboard(), indent=2) + "\n", encoding="utf-8")
