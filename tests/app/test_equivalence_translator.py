"""The service gives what the synchronous Translator gives, with a real network."""

import asyncio
from pathlib import Path

import httpx
import pytest

from app.lifecycle.engine_backend import EngineBackend
from app.scheduling import engine_batch
from app.scheduling.backlog import SentenceJob
from app.scheduling.engine_batch import EngineBatch
from app.settings import Settings
from model.decode_request import DecodeOptions, DecodeRequest
from model.decoding.runner import Result
from model.translation.translator import Translator
from tests.app.conftest import application, serving
from tests.model.native_library import needs_native
from tests.tiny import write_foreign_checkpoint

pytestmark = pytest.mark.anyio
NATIVE = pytest.mark.parametrize("native", [pytest.param("auto", marks=needs_native), "off"])
PAIR = {"source": "en", "target": "fr"}
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
    app = application(tiny_checkpoint)
    async with serving(app) as client:
        together = await client.post("/translate", json=PAIR | {"q": TEXTS})
        alone = await asyncio.gather(*(client.post("/translate", json=PAIR | {"q": text}) for text in TEXTS))
        options = {"decoding": {"strategy": "greedy"}}
        greedily = await client.post("/translate", json=PAIR | {"q": TEXTS} | options)
        rich = await client.post(
            "/translate",
            json=PAIR | {"q": TEXTS[1], "include": ["scores", "tokens", "alignment"], "alternatives": 1},
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


@NATIVE
async def test_the_start_of_a_target_is_given_on_every_way_and_is_no_text(
    tmp_path: Path, native: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in NLLB, where the source begins with its language, and the target with the other."""
    monkeypatch.setenv("DRAGOMAN_NATIVE", native)
    write_foreign_checkpoint(tmp_path)
    translator = Translator.load(tmp_path, device="cpu")
    tokenizer, options = translator.tokenizer, {"beam_size": 3, "max_length": 6}
    translated = translator.translate(
        TEXTS, source="en", target="de", options=translator.card.options(options)
    )
    best = [sentence.best for text in translated for sentence in text.sentences]
    ids = [tokenizer.encode(text, source_language="en", target_language="de") for text in TEXTS[::3]]
    start_ids = (tokenizer.language_tags["de"],)
    requests = [
        DecodeRequest(tuple(each), translator.card.options(options), start_ids=start_ids) for each in ids
    ]
    direct = [result[0] for result in translator.decode(requests)]
    assert (best[0], best[-1]) == tuple(direct)
    assert any(len(each.token_log_probabilities) == 6 for each in best)
    assert not {*tokenizer.language_tags.values()} & {id_ for each in best for id_ in each.token_ids}
    into_french = translator.translate(TEXTS[0], source="en", target="fr").sentences[0]
    assert into_french.request.source_ids == tuple(ids[0])
    assert into_french.request.start_ids == (tokenizer.language_tags["fr"],)
    body = {"q": TEXTS, "source": "en", "target": "de", "decoding": options, "include": ["tokens"]}
    async with serving(application(tmp_path)) as client:
        answer = (await client.post("/translate", json=body)).json()
        unknown = await client.post("/translate", json=body | {"source": "es"})
    assert answer["translatedText"] == [text.text for text in translated]
    assert answer["details"][0]["tokens"][0]["target"] == tokenizer.pieces(best[0].token_ids)
    assert unknown.status_code == 400


@NATIVE
async def test_other_requests_workers_and_clients_that_leave_change_nothing(
    tiny_checkpoint: Path, native: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """100 clients on two workers, with mixed options, a third of whom hang up on the way."""
    monkeypatch.setenv("DRAGOMAN_NATIVE", native)
    translator = Translator.load(tiny_checkpoint, device="cpu")
    kinds: tuple[dict[str, object], ...] = (
        {"strategy": "greedy"}, {"beam_size": 4}, {"strategy": "sample", "seed": 3}, {"beam_size": 2},
    )  # fmt: skip
    expected = {
        (text, index): translator.translate(
            [text], source="en", target="fr", options=translator.card.options(options)
        )[0].text
        for text in TEXTS
        for index, options in enumerate(kinds)
    }
    # Who would wait longer than the deadline is refused, and a busy machine is slow.
    app = application(tiny_checkpoint, workers=2, request_timeout_ms=300_000)
    async with serving(app) as client:
        asked = [(TEXTS[i % len(TEXTS)], i % len(kinds)) for i in range(100)]
        calls = [
            asyncio.create_task(client.post("/translate", json=PAIR | {"q": text, "decoding": kinds[index]}))
            for text, index in asked
        ]
        await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
        for call in calls[::3]:
            call.cancel()
        answers = await asyncio.gather(*calls, return_exceptions=True)
    answered = [
        (key, answer)
        for key, answer in zip(asked, answers, strict=True)
        if isinstance(answer, httpx.Response)
    ]
    assert {answer.status_code for _, answer in answered} == {200}
    assert len(answered) >= 66
    assert [answer.json()["translatedText"] for _, answer in answered] == [
        expected[key] for key, _ in answered
    ]


@NATIVE
def test_what_is_shown_on_the_way_is_how_every_result_begins(
    tiny_checkpoint: Path, native: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRAGOMAN_NATIVE", native)
    monkeypatch.setattr(engine_batch, "_CALL_SECONDS", 0)
    backend = EngineBackend(Settings(_env_file=None, checkpoint=tiny_checkpoint, device="cpu", workers=1))
    (model,) = backend.list_models()
    model.loaded = backend.load(model)
    driven = EngineBatch(model.loaded.engines[0])
    for options in ({"strategy": "greedy"}, {"beam_size": 4}, {"strategy": "sample", "seed": 1}):
        for text in ("Where is the station?", "The cat sleeps.", "Something it has never read!"):
            ids = tuple(model.tokenizer.encode(text, target_language="fr"))
            start_ids = (model.tokenizer.language_tags["fr"],) if text.startswith("The") else ()
            request = DecodeRequest(ids, model.card.options(options), start_ids=start_ids)
            driven.add(SentenceJob(model, request, float("inf"), 0.0, is_streamed=True))
    grown: dict[SentenceJob, list[tuple[int, ...]]] = {}
    results: dict[SentenceJob, Result] = {}
    while not driven.is_idle:
        turn = driven.step()
        for job, token_ids in turn.grown:
            grown.setdefault(job, []).append(token_ids)
        results.update(turn.finished)
    assert len(results) == 9
    assert all(job in grown for job in results if job.request.options.strategy != "beam")
    assert any(len(grown.get(job, [])) > 1 for job in results if job.request.options.strategy == "beam")
    for job, result in results.items():
        assert isinstance(result, list)
        assert all(result[0].token_ids[: len(shown)] == shown for shown in grown.get(job, []))
    model.loaded.close()
