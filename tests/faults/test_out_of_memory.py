"""A device without memory, seen by clients: too large a batch is divided, too large a text refused."""

import asyncio
import string

import httpx
import pytest

from tests.app.conftest import Serve, context_of, until
from tests.app.double import DoubleBackend, DoubleEngine

pytestmark = pytest.mark.anyio


def limit_memory(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """Let steps find no memory for more than so many words at once."""

    def require_memory(engine: DoubleEngine) -> None:
        if sum(len(sentence.request.source_ids) - 1 for sentence in engine._running) > most:
            engine._running.clear()
            raise MemoryError

    monkeypatch.setattr(DoubleEngine, "_poison", require_memory)


async def ask(client: httpx.AsyncClient, text: str) -> httpx.Response:
    return await client.post("/translate", json={"q": text, "source": "en", "target": "fr"})


async def test_every_request_is_answered_in_smaller_batches(
    serve: Serve, backend: DoubleBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve() as client:
        limit_memory(monkeypatch, most=10)
        backend.gate.clear()
        texts = [f"w{letter} x y" for letter in string.ascii_lowercase[:20]]
        calls = [asyncio.create_task(ask(client, text)) for text in texts]
        await until(lambda: context_of(client).lifecycle.in_flight == len(calls))
        backend.gate.set()
        answers = await asyncio.gather(*calls)
        exposition = (await client.get("/metrics")).text
    assert [answer.json()["translatedText"] for answer in answers] == list(map(str.upper, texts))
    assert 'failed_sentences_total{reason="out_of_memory"} 0.0' in exposition


async def test_a_text_that_finds_none_even_alone_is_asked_to_come_back(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve() as client:
        limit_memory(monkeypatch, most=5)
        large, small = await asyncio.gather(ask(client, "a b c d e f g h"), ask(client, "a b"))
        again = await ask(client, "c d e")
        exposition = (await client.get("/metrics")).text
    assert (large.status_code, large.json()["code"]) == (503, "out_of_memory")
    assert int(large.headers["Retry-After"]) >= 1
    assert [small.json()["translatedText"], again.json()["translatedText"]] == ["A B", "C D E"]
    assert 'failed_sentences_total{reason="out_of_memory"} 1.0' in exposition
    assert 'rejected_total{reason="out_of_memory"} 1.0' in exposition
