"""Metrics beyond their names and labels, which `tests/test_contract.py` compares."""

import httpx
import pytest
from prometheus_client import Histogram

from app.telemetry.metrics import Metrics


@pytest.mark.anyio
async def test_memory_and_models_are_read_from_the_backend(client: httpx.AsyncClient) -> None:
    exposition = (await client.get("/metrics")).text
    assert 'dragoman_gpu_memory_bytes{kind="allocated"} 1024.0' in exposition
    labels = f'checksum="{"c" * 64}",device="cpu",name="tiny",precision="float32",version="1+cccccccc"'
    assert f"dragoman_model_info{{{labels}}} 1.0" in exposition
    assert 'dragoman_source_tokens_total{pair="en-fr"} 0.0' in exposition


def test_buckets_of_seconds_start_at_a_millisecond() -> None:
    histograms = [each for each in vars(Metrics()).values() if isinstance(each, Histogram)]
    assert len(histograms) >= 4
    assert all(each._upper_bounds[0] == 0.001 for each in histograms)
