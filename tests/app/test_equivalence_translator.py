"""The service gives what the synchronous Translator gives, with a real network."""

import asyncio
from pathlib import Path

import pytest

from app.main import create_app
from app.settings import Settings
from model.request import DecodeOptions
from model.translator import Translator
from tests.app.conftest import client_of

pytestmark = pytest.mark.anyio
TEXTS = [
    "Good morning.",
    "Where is the station?  The cat sleeps.\n\nThank you. I am hungry.",
    "",
    "Something it has never read!",
]


async def test_the_service_equals_the_translator(tiny_checkpoint: Path) -> None:
    translator = Translator.load(tiny_checkpoint, device="cpu")
    expected = [one.text for one in translator.translate(TEXTS, source="en", target="fr")]
    greedy = DecodeOptions(strategy="greedy")
    expected_greedy = [
        one.text for one in translator.translate(TEXTS, source="en", target="fr", options=greedy)
    ]
    app = create_app(Settings(_env_file=None, checkpoint=tiny_checkpoint, device="cpu"))
    async with app.router.lifespan_context(app), client_of(app) as client:
        async with asyncio.timeout(60):
            while (await client.get("/readyz")).status_code != 200:
                await asyncio.sleep(0.05)
        request = {"source": "en", "target": "fr"}
        together = await client.post("/translate", json=request | {"q": TEXTS})
        alone = await asyncio.gather(
            *(client.post("/translate", json=request | {"q": text}) for text in TEXTS)
        )
        options = {"decoding": {"strategy": "greedy"}}
        greedily = await client.post("/translate", json=request | {"q": TEXTS} | options)
        rich = await client.post(
            "/translate",
            json=request | {"q": TEXTS[1], "include": ["scores", "tokens", "alignment"], "alternatives": 1},
        )
        described = (await client.get("/models")).json()[0]
        metrics = (await client.get("/metrics")).text
    assert together.json()["translatedText"] == expected
    assert [response.json()["translatedText"] for response in alone] == expected
    assert greedily.json()["translatedText"] == expected_greedy
    details = rich.json()["details"][0]
    assert len(details["scores"]) == len(details["tokens"]) == len(details["alignment"]) == 4
    for tokens, alignment in zip(details["tokens"], details["alignment"], strict=True):
        assert {len(row) for row in alignment} == {len(tokens["source"])}
    assert described["checksum"] == translator.checksum
    assert described["parameters"] == translator.num_parameters
    for name in ("decode_step_seconds", "encode_seconds", "time_to_first_token_seconds"):
        assert f"dragoman_{name}_count 0.0" not in metrics


async def test_a_checkpoint_that_cannot_be_loaded_is_left_in_the_lifecycle(tmp_path: Path) -> None:
    app = create_app(Settings(_env_file=None, checkpoint=tmp_path, device="cpu"))
    async with app.router.lifespan_context(app), client_of(app) as client:
        async with asyncio.timeout(60):
            while app.state.context.lifecycle.failure is None:
                await asyncio.sleep(0.02)
        assert (await client.get("/readyz")).status_code == 503
        assert (await client.get("/livez")).status_code == 200
    assert "checkpoint" in str(app.state.context.lifecycle.failure)
