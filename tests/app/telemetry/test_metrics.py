"""The names and labels that users' dashboards rely on."""

import asyncio

import httpx
from prometheus_client import Histogram
from starlette.applications import Starlette

from app.main import create_app
from app.settings import Settings
from app.telemetry.metrics import Metrics
from tests.app.conftest import client_of
from tests.app.double import DoubleBackend

CONTRACT: dict[str, set[str]] = {
    "requests_total": {"endpoint", "status"},
    "request_duration_seconds": {"endpoint"},
    "requests_in_flight": set(),
    "queue_wait_seconds": set(),
    "queue_depth": set(),
    "queued_tokens": set(),
    "batch_sentences": set(),
    "batch_rows": set(),
    "decode_step_seconds": set(),
    "encode_seconds": set(),
    "time_to_first_token_seconds": set(),
    "source_tokens_total": {"pair"},
    "target_tokens_total": {"pair"},
    "rejected_total": {"reason"},
    "cancelled_total": {"stage"},
    "degenerate_output_total": {"kind"},
    "model_info": {"name", "version", "checksum", "device", "precision"},
    "model_load_seconds": set(),
    "gpu_memory_bytes": {"kind"},
}


async def _run(app: Starlette, requests: list[httpx.Request]) -> set[str]:
    """Send requests; gives the series that there are then, without their values."""
    async with app.router.lifespan_context(app), client_of(app) as client:
        for request in requests:
            await client.send(request)
        text = (await client.get("/metrics")).text
    return {line.rpartition(" ")[0] for line in text.splitlines() if not line.startswith("#")}


def _translation() -> httpx.Request:
    fields = {"q": "one two", "source": "en", "target": "fr"}
    return httpx.Request("POST", "http://dragoman/translate", json=fields)


def test_each_metric_of_the_contract_has_just_its_labels() -> None:
    app = create_app(Settings(_env_file=None), DoubleBackend())
    series = asyncio.run(_run(app, [_translation()]))
    found: dict[str, set[str]] = {}
    for each in series:
        name, _, labels = each.partition("{")
        for suffix in ("_bucket", "_sum", "_count"):
            name = name.removesuffix(suffix)
        own = {label.partition("=")[0] for label in labels.rstrip("}").split(",") if label} - {"le"}
        found.setdefault(name.removeprefix("dragoman_"), set()).update(own)
    assert {name: found.get(name) for name in CONTRACT} == CONTRACT


def test_seconds_are_told_apart_from_a_millisecond_on() -> None:
    metrics = Metrics()
    histograms = [each for each in vars(metrics).values() if isinstance(each, Histogram)]
    assert len(histograms) >= 4
    assert all(each._upper_bounds[0] == 0.001 for each in histograms)
