"""Metrics beyond their names and labels, which `tests/test_contract.py` compares."""

import pytest

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
