"""Languages, detection, checkpoints, probes, metrics and documentation."""

import asyncio
import json
import os
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from app.main import create_app
from app.settings import Settings
from tests.app.conftest import Serve, client_of, serving
from tests.app.double import DoubleBackend

pytestmark = pytest.mark.anyio
GOLDEN = Path(__file__).parents[1] / "openapi.json"


async def test_languages_in_libretranslates_shape(client: httpx.AsyncClient) -> None:
    assert (await client.get("/languages")).json() == [
        {"code": "en", "name": "English", "targets": ["fr"]},
        {"code": "fr", "name": "French", "targets": ["en"]},
    ]


async def test_detection(client: httpx.AsyncClient) -> None:
    found = (await client.post("/detect", json={"q": "Où est la gare, s'il vous plaît ?"})).json()
    assert found[0]["language"] == "fr"
    assert found[0]["confidence"] > 50
    assert (await client.post("/detect", data={"q": "Where is it?"})).json()[0]["language"] == "en"
    assert (await client.post("/detect", json={"q": ["a"]})).status_code == 422
    assert (await client.post("/detect", json={"q": "a" * 10_001})).status_code == 413


async def test_models(client: httpx.AsyncClient) -> None:
    assert (await client.get("/models")).json() == [
        {
            "name": "tiny",
            "version": "1+cccccccc",
            "checksum": "c" * 64,
            "pairs": [["en", "fr"], ["fr", "en"]],
            "device": "cpu",
            "precision": "float32",
            "parameters": 1000,
            "limits": {
                "max_source_tokens": 40,
                "max_target_tokens": 64,
                "max_chars": 10_000,
                "max_items": 256,
                "max_body_bytes": 1_048_576,
                "max_queued_tokens": 65_536,
                "max_requests": 1024,
                "request_timeout_ms": 30_000,
                "max_timeout_ms": 600_000,
            },
            "loaded": True,
            "pinned": True,
            "memory_bytes": 100,
            "licence": None,
            "origin": None,
            "sources": None,
            "targets": None,
        }
    ]


async def test_a_model_of_many_pairs_lists_its_sources_and_targets() -> None:
    codes = ["en", *(f"q{letter}" for letter in "abcdefghij")]
    pairs = tuple((source, target) for source in codes for target in codes if source != target)
    app = create_app(Settings(_env_file=None), DoubleBackend(("many", pairs)))
    async with serving(app) as client:
        (described,) = (await client.get("/models")).json()
        listed = (await client.get("/languages")).json()
    assert (described["pairs"], described["sources"], described["targets"]) == ([], codes, codes)
    assert [(each["code"], len(each["targets"])) for each in listed] == [(code, 10) for code in codes]


async def test_readiness_and_metrics_tell_which_steps_are_not_recorded(
    backend: DoubleBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.lifecycle.active_models.cuda_graphs", lambda: {"recorded": 40, "eager": 2})
    monkeypatch.setattr("app.lifecycle.active_models.gpu_memory", lambda: {"allocated": 1024})
    app = create_app(Settings(_env_file=None), backend)
    async with app.router.lifespan_context(app), client_of(app) as client:
        ready = (await client.get("/readyz")).json()
        assert ready == {"status": "ok", "cuda_graphs": {"recorded": 40, "eager": 2}}
        metrics = (await client.get("/metrics")).text
    assert 'dragoman_cuda_graphs{state="eager"} 2.0' in metrics
    assert 'dragoman_gpu_memory_bytes{kind="allocated"} 1024.0' in metrics
    labels = f'checksum="{"c" * 64}",device="cpu",name="tiny",precision="float32",version="1+cccccccc"'
    assert f"dragoman_model_info{{{labels}}} 1.0" in metrics


async def test_probes_follow_the_lifecycle(backend: DoubleBackend) -> None:
    app = create_app(Settings(_env_file=None), backend)
    async with client_of(app) as client:
        assert (await client.get("/livez")).status_code == 200
        loading = await client.get("/readyz")
        assert (loading.status_code, loading.json()["code"]) == (503, "loading")
        assert int(loading.headers["Retry-After"]) >= 1
        assert (await client.get("/health")).status_code == 503
        request = {"q": "a", "source": "en", "target": "fr"}
        assert (await client.post("/translate", json=request)).status_code == 503
        async with app.router.lifespan_context(app):
            assert (await client.get("/readyz")).json() == {"status": "ok"}
            assert (await client.get("/health")).json() == {"status": "ok"}
            app.state.context.lifecycle.drain()
            draining = await client.get("/readyz")
            assert (draining.status_code, draining.json()["code"]) == (503, "draining")
            assert draining.headers["Connection"] == "close"
            refused = await client.post("/translate", json=request)
            assert (refused.status_code, refused.json()["code"]) == (503, "draining")
            assert (await client.get("/livez")).status_code == 200


async def test_metrics_count_what_happened(serve: Serve) -> None:
    async with serve() as client:
        await client.post("/translate", json={"q": ["one two.", "three"], "source": "en", "target": "fr"})
        await client.post("/translate", json={"q": 5})
        await asyncio.gather(*(client.get(f"/random/{i}") for i in range(20)))
        text = (await client.get("/metrics")).text
    for sample in (
        'dragoman_requests_total{endpoint="/translate",status="200"} 1.0',
        'dragoman_requests_total{endpoint="/translate",status="422"} 1.0',
        'dragoman_requests_total{endpoint="unmatched",status="404"} 20.0',
        'dragoman_rejected_total{reason="not_found"} 20.0',
        'dragoman_source_tokens_total{pair="en-fr"} 5.0',
        'dragoman_target_tokens_total{pair="en-fr"} 3.0',
        "dragoman_queue_wait_seconds_count 2.0",
        "dragoman_queue_depth 0.0",
        "dragoman_batch_sentences_sum 5.0",
        "dragoman_batch_rows_sum 10.0",
        "dragoman_encode_seconds_count 1.0",
        "dragoman_decode_step_seconds_count 3.0",
        "dragoman_time_to_first_token_seconds_count 2.0",
        'dragoman_request_duration_seconds_bucket{endpoint="/translate",le="0.001"}',
    ):
        assert sample in text
    assert "/random" not in text


async def test_metrics_are_there_from_the_start() -> None:
    """While the model still loads, so that a first event shows as a rise."""
    app = create_app(Settings(_env_file=None), DoubleBackend())
    async with client_of(app) as client:
        before = (await client.get("/metrics")).text
        async with app.router.lifespan_context(app):
            after = (await client.get("/metrics")).text
    families = {family.name: family for family in text_string_to_metric_families(after)}
    assert _names(before) == _names(after)
    for sample in (
        'dragoman_requests_total{endpoint="/translate",status="200"} 0.0',
        'dragoman_request_duration_seconds_count{endpoint="/translate"} 0.0',
        'dragoman_rejected_total{reason="queue_full"} 0.0',
        'dragoman_degenerate_output_total{kind="unfinished"} 0.0',
        'dragoman_cancelled_total{stage="decoding"} 0.0',
        'dragoman_source_tokens_total{pair="en-fr"} 0.0',
        'dragoman_target_tokens_total{pair="fr-en"} 0.0',
        "dragoman_model_load_seconds 0.5",
        "dragoman_workers 1.0",
        "dragoman_queued_tokens_limit 65536.0",
    ):
        assert sample in after.splitlines()
    for name, family in families.items():
        if name.endswith("_seconds") and family.type == "histogram":
            bounds = [sample.labels["le"] for sample in family.samples if "le" in sample.labels]
            assert bounds[0] == "0.001"


def _names(exposition: str) -> set[str]:
    lines = exposition.splitlines()
    return {line.split()[2].removeprefix("dragoman_") for line in lines if line.startswith("# TYPE")}


async def test_the_documentation_is_the_golden_one(client: httpx.AsyncClient) -> None:
    """Run with DRAGOMAN_WRITE_GOLDEN=1 to accept a change."""
    document = (await client.get("/openapi.json")).json()
    if os.environ.get("DRAGOMAN_WRITE_GOLDEN"):
        GOLDEN.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", "utf-8")
    assert document == json.loads(GOLDEN.read_text("utf-8"))
