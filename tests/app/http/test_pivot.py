"""Pairs that no checkpoint translates at once go through a language between."""

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

import httpx
import pytest

from app.scheduling.scheduler import ModelRequest, Results, Scheduler
from model.decode_request import DecodeRequest
from model.decoding.sentence import Sentence
from tests.app.conftest import Serve, until
from tests.app.double import DoubleBackend, DoubleEngine, take_steps

pytestmark = pytest.mark.anyio
GERMAN = "Guten Morgen, wo ist der Bahnhof?"
ENGLISH = "Good morning, where is the station?"


@pytest.fixture
def backend() -> DoubleBackend:
    """German into French goes through English, and so does English into Spanish through French."""
    return DoubleBackend(("de-en", (("de", "en"),)), ("en-fr", (("en", "fr"),)), ("fr-es", (("fr", "es"),)))


async def translate(client: httpx.AsyncClient, **fields: object) -> httpx.Response:
    return await client.post("/translate", json={"source": "de", "target": "fr"} | fields)


def words(backend: DoubleBackend) -> list[str]:
    """What the engines were given, in order, without ends."""
    pieces = backend.tokenizer.source_pieces
    return [" ".join(pieces(request.source_ids)[:-1]) for request in backend.admitted]


async def test_the_second_checkpoint_goes_on_with_what_the_first_gave(
    client: httpx.AsyncClient, backend: DoubleBackend
) -> None:
    response = await translate(client, q="eins zwei")
    assert response.json() == {
        "translatedText": "EINS ZWEI",
        "model": "de-en>en-fr",
        "model_version": "1+cccccccc>1+cccccccc",
        "pivot": "en",
    }
    assert words(backend) == ["eins zwei", "Eins zwei"]  # capitals are read with small letters


async def test_turned_off_the_pair_is_refused(serve: Serve, backend: DoubleBackend) -> None:
    async with serve(backend, pivot="off") as client:
        response = await translate(client, q="eins")
        targets = [each["targets"] for each in (await client.get("/languages")).json()]
    assert (response.status_code, response.json()["field"]) == (400, "target")
    assert targets == [["en"], ["fr"], ["es"], []]


async def test_texts_of_one_request_go_their_own_ways(
    client: httpx.AsyncClient, backend: DoubleBackend
) -> None:
    body = (await translate(client, q=[GERMAN, ENGLISH, "42"], source="auto")).json()
    assert body["translatedText"] == [GERMAN.upper(), ENGLISH.upper(), "42"]
    assert [found["language"] for found in body["detectedLanguage"]][:2] == ["de", "en"]
    assert body["model"] == ["de-en>en-fr", "en-fr", None]
    assert body["model_version"] == ["1+cccccccc>1+cccccccc", "1+cccccccc", None]
    assert body["pivot"] == ["en", None, None]
    assert words(backend) == [GERMAN, ENGLISH, GERMAN.capitalize()]


async def test_white_space_and_markup_survive_both_legs(client: httpx.AsyncClient) -> None:
    text = "  Eins, zwei.\n\n\t- Drei!  Vier.\r\n"
    assert (await translate(client, q=text)).json()["translatedText"] == text.upper()
    page = '<p class="a">Eins &amp; <b>zwei</b>.</p>\n<code>x = 1</code><br/>Drei'
    expected = '<p class="a">EINS &amp; <b>ZWEI</b>.</p>\n<code>x = 1</code><br/>DREI'
    assert (await translate(client, q=page, format="html")).json()["translatedText"] == expected


async def test_details_and_alternatives_are_of_the_last_leg(
    client: httpx.AsyncClient, backend: DoubleBackend
) -> None:
    include = ["scores", "tokens", "alignment"]
    body = (await translate(client, q="eins zwei. Drei", alternatives=1, include=include)).json()
    assert body["alternatives"] == ["EINS EINS ZWEI. DREI DREI"]
    details = body["details"][0]
    assert [tokens["source"] for tokens in details["tokens"]] == [["Eins", "zwei.", "</s>"], ["drei", "</s>"]]
    assert len(details["alignment"]) == 2
    first, last = backend.admitted[0].options, backend.admitted[-1].options
    assert (first.num_hypotheses, first.return_alignment) == (1, False)
    assert (last.num_hypotheses, last.return_alignment) == (2, True)


async def test_options_are_refused_before_anything_is_decoded(
    client: httpx.AsyncClient, backend: DoubleBackend
) -> None:
    assert (await translate(client, q="eins", decoding={"max_length": 65})).status_code == 422
    assert backend.admitted == []


async def test_what_was_cut_on_the_way_is_unfinished(
    client: httpx.AsyncClient, backend: DoubleBackend
) -> None:
    backend.endless = "mehr"
    body = (await translate(client, q=["mehr und", "eins"], include=["scores"])).json()
    assert body["unfinished"] == [True, False]
    assert [details["finished"] for details in body["details"]] == [[True], [True]]


async def test_each_leg_counts_its_tokens(client: httpx.AsyncClient) -> None:
    await translate(client, q="eins zwei")
    metrics = (await client.get("/metrics")).text
    for pair in ("de-en", "en-fr"):
        assert f'dragoman_source_tokens_total{{pair="{pair}"}} 3.0' in metrics
        assert f'dragoman_target_tokens_total{{pair="{pair}"}} 2.0' in metrics


async def test_all_texts_arrive_or_none(client: httpx.AsyncClient, backend: DoubleBackend) -> None:
    backend.poison = "Zwei"  # of the second leg: what the first gave, as it is read
    response = await translate(client, q=["eins", "zwei drei", "vier"])
    assert (response.status_code, response.json()["code"]) == (500, "internal_error")
    assert (await translate(client, q="eins")).status_code == 200


async def test_what_becomes_too_long_on_the_way_is_divided(
    client: httpx.AsyncClient, backend: DoubleBackend
) -> None:
    backend.hopeless = "immerzu"
    text = " ".join([*(f"wort{i}" for i in range(37)), "immerzu"])
    response = await translate(client, q=["eins", text])
    assert response.status_code == 200
    assert len(backend.admitted) > 4  # both texts on both legs would be four


async def test_one_deadline_holds_for_both_legs(
    client: httpx.AsyncClient,
    backend: DoubleBackend,
    monkeypatch: pytest.MonkeyPatch,
    pass_time: Callable[[float], None],
) -> None:
    deadlines: list[float] = []
    submit, add = Scheduler.submit, DoubleEngine.add

    async def noted(
        scheduler: Scheduler, asked: Sequence[ModelRequest], deadline: float, *rest: Any, **more: Any
    ) -> Results:
        deadlines.append(deadline)
        return await submit(scheduler, asked, deadline, *rest, **more)

    def hold_the_second_leg(engine: DoubleEngine, request: DecodeRequest) -> Sentence:
        if engine is backend.engine("en-fr", 0):
            backend.gate.clear()
        return add(engine, request)

    monkeypatch.setattr(Scheduler, "submit", noted)
    monkeypatch.setattr(DoubleEngine, "add", hold_the_second_leg)
    text = " ".join(["wort"] * 8)
    call = asyncio.create_task(translate(client, q=text))
    await until(backend.held.is_set)
    pass_time(60)
    response = await call
    assert (response.status_code, response.json()["code"]) == (504, "deadline_passed")
    assert words(backend) == [text, text.capitalize()]
    assert len(deadlines) == 2
    assert deadlines[0] == deadlines[1]
    monkeypatch.undo()
    backend.gate.set()
    assert (await translate(client, q=text)).status_code == 200


async def test_only_the_last_leg_is_shown_while_it_grows(
    client: httpx.AsyncClient, backend: DoubleBackend
) -> None:
    take_steps(backend, 0.05)
    request = {"q": ["eins zwei drei vier.", "fünf sechs"], "source": "de", "target": "fr"}
    streamed = await client.post("/translate", json=request, headers={"Accept": "text/event-stream"})
    events = [block.split("\n") for block in streamed.text.split("\n\n")[:-1]]
    names = [name for name, _ in events]
    assert names == ["event: partial"] * (len(events) - 1) + ["event: done"]
    assert len(events) > 2
    data = [json.loads(line.removeprefix("data: ")) for _, line in events]
    wholes = [text.upper() for text in request["q"]]
    assert all(wholes[part["index"]].startswith(part["translatedText"]) for part in data[:-1])
    assert data[-1] == (await client.post("/translate", json=request)).json()
    assert data[-1]["pivot"] == "en"


async def test_the_stable_prefix_of_a_hop_that_is_not_shown_is_not_computed(
    client: httpx.AsyncClient, backend: DoubleBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {backend.engine(name, 0): name for name in ("de-en", "en-fr")}
    asked: set[str] = set()
    agreed = DoubleEngine.stable_prefix

    def note(engine: DoubleEngine, sentence: Sentence) -> tuple[int, ...]:
        asked.add(names[engine])
        return agreed(engine, sentence)

    monkeypatch.setattr(DoubleEngine, "stable_prefix", note)
    request = {"q": "eins zwei drei vier", "source": "de", "target": "fr"}
    await client.post("/translate", json=request, headers={"Accept": "text/event-stream"})
    assert asked == {"en-fr"}
    asked.clear()
    request = {"q": [GERMAN, ENGLISH], "source": "auto", "target": "fr"}
    await client.post("/translate", json=request, headers={"Accept": "text/event-stream"})
    assert asked == {"de-en", "en-fr"}, "what goes straight there is shown from the beginning"
