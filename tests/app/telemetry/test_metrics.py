"""Metrics beyond their names and labels, which `tests/test_contract.py` compares."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from app.telemetry.metrics import Metrics
from tests.app.conftest import Serve


@pytest.mark.anyio
async def test_memory_and_models_are_read(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.lifecycle.active_models.gpu_memory", lambda: {"allocated": 1024})
    async with serve() as client:
        exposition = (await client.get("/metrics")).text
    assert 'dragoman_gpu_memory_bytes{kind="allocated"} 1024.0' in exposition
    labels = f'checksum="{"c" * 64}",device="cpu",name="tiny",precision="float32",version="1+cccccccc"'
    assert f"dragoman_model_info{{{labels}}} 1.0" in exposition
    assert 'dragoman_source_tokens_total{pair="en-fr"} 0.0' in exposition


def test_buckets_of_seconds_start_at_a_millisecond() -> None:
    families = text_string_to_metric_families(Metrics().exposition().decode())
    histograms = [each for each in families if each.type == "histogram" and each.name.endswith("_seconds")]
    assert len(histograms) >= 4
    assert {each.samples[0].labels["le"] for each in histograms if each.samples} == {"0.001"}
