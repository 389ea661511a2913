"""POST /translate, with a backend that gives every word back in capitals."""

import json

import httpx
import pytest

from tests.app.conftest import Serve
from tests.app.double import DoubleBackend

pytestmark = pytest.mark.anyio


async def translate(client: httpx.AsyncClient, **fields: object) -> httpx.Response:
    return await client.post("/translate", json={"source": "en", "target": "fr"} | fields)


@pytest.mark.parametrize("text", ["where is it?", "  Hello.\n\n\tHow are you?  Fine.\r\n", "Much. " * 999])
async def test_a_text_comes_back_translated(client: httpx.AsyncClient, text: str) -> None:
    response = await translate(client, q=text)
    assert response.status_code == 200
    assert response.json() == {
        "translatedText": text.upper(),
        "model": "tiny",
        "model_version": "1+cccccccc",
    }


@pytest.mark.parametrize("blank", ["", " ", "\n\t ", "\u3000", "...", "42"])
async def test_what_holds_no_words_comes_back_unchanged(
    client: httpx.AsyncClient, backend: DoubleBackend, blank: str
) -> None:
    assert (await translate(client, q=blank)).json()["translatedText"] == blank
    assert backend.admitted == []


@pytest.mark.parametrize(("source", "target"), [("EN", "FR"), ("en-GB", "fr_CA"), ("en-Latn-GB", "fr")])
async def test_codes_may_be_spelt_as_users_do(client: httpx.AsyncClient, source: str, target: str) -> None:
    assert (await translate(client, q="hi", source=source, target=target)).json()["translatedText"] == "HI"


async def test_the_same_language_leaves_text_unchanged(
    client: httpx.AsyncClient, backend: DoubleBackend
) -> None:
    response = await translate(client, q="as it is", source="en", target="en-GB")
    assert response.json() == {"translatedText": "as it is", "model": None, "model_version": None}
    assert backend.admitted == []


async def test_auto_detects_each_text(client: httpx.AsyncClient) -> None:
    texts = ["Good morning, where is the station?", "Bonjour, où est la gare ?"]
    body = (await translate(client, q=texts, source="auto")).json()
    assert body["translatedText"] == [texts[0].upper(), texts[1]]
    assert [found["language"] for found in body["detectedLanguage"]] == ["en", "fr"]
    assert all(50 < found["confidence"] <= 100 for found in body["detectedLanguage"])


async def test_of_no_texts_no_languages_are_detected(client: httpx.AsyncClient) -> None:
    assert (await translate(client, q=[], source="AUTO")).json()["detectedLanguage"] == []
    nothing = {"translatedText": [], "model": None, "model_version": None}
    assert (await translate(client, q=[])).json() == nothing
    assert "language" in (await translate(client, q="", source="auto")).json()["detectedLanguage"]


async def test_details_hold_what_was_asked_for(client: httpx.AsyncClient) -> None:
    texts = ["one two. Three.", ""]
    body = (await translate(client, q=texts, include=["scores", "tokens", "alignment"])).json()
    first, second = body["details"]
    assert first["scores"] == [-0.5, -0.5]
    assert first["tokens"][0]["source"] == ["one", "two.", "</s>"]
    assert first["tokens"][0]["target"] == ["ONE", "TWO."]
    assert len(first["tokens"][0]["log_probabilities"]) == 3
    assert [len(row) for row in first["alignment"][0]] == [3, 3]
    assert first["finished"] == [True, True]
    assert first["degenerate"] == [None, None]
    assert second == {"finished": [], "degenerate": [], "scores": [], "tokens": [], "alignment": []}
    (only_scores,) = (await translate(client, q="a", include=["scores"])).json()["details"]
    assert set(only_scores) == {"finished", "degenerate", "scores"}


async def test_what_the_length_limit_ended_says_so(client: httpx.AsyncClient, backend: DoubleBackend) -> None:
    backend.endless = "more"
    assert "unfinished" not in (await translate(client, q=["one", ""])).json()
    body = (await translate(client, q=["one", "two. And more and", ""], include=["scores"])).json()
    assert body["unfinished"] == [False, True, False]
    assert [details["finished"] for details in body["details"]] == [[True], [True, False], []]
    assert (await translate(client, q="more and")).json()["unfinished"] is True
    assert 'degenerate_output_total{kind="unfinished"} 2.0' in (await client.get("/metrics")).text


async def test_decoding_options_reach_the_decoder_and_the_checkpoint_decides_the_others(
    client: httpx.AsyncClient, backend: DoubleBackend
) -> None:
    await translate(client, q="a")
    assert backend.admitted[0].options == backend.models()[0].card.decoding
    wanted = {"strategy": "sample", "temperature": 0.5, "top_k": 5, "top_p": 0.9, "seed": 7, "max_length": 9}
    assert (await translate(client, q="a", decoding=wanted)).status_code == 200
    options = backend.admitted[1].options
    assert {name: getattr(options, name) for name in wanted} == wanted


async def test_a_line_break_in_html_ends_no_sentence(
    client: httpx.AsyncClient, backend: DoubleBackend
) -> None:
    await translate(client, q="<p>Hello\nyou.\nBye.</p>", format="html")
    await translate(client, q="Hello\nyou.", format="text")
    read = [backend.tokenizer.source_pieces(request.source_ids) for request in backend.admitted]
    assert [len(pieces) for pieces in read] == [3, 2, 2, 2]


async def test_markup_in_plain_text_is_text(client: httpx.AsyncClient) -> None:
    text = "<b>${jndi:ldap://x}</b> '; DROP TABLE--"
    answer = (await translate(client, q=text)).json()["translatedText"]
    assert answer == text.replace("Drop", "DROP")  # tags and placeholders stay


async def test_the_model_can_be_named_or_follows_the_pair(serve: Serve) -> None:
    double = DoubleBackend(
        ("first", (("en", "fr"),)), ("second", (("en", "fr"), ("fr", "en"))), ("third", (("de", "fr"),))
    )
    async with serve(double, pivot="off") as client:
        assert (await translate(client, q="a")).json()["model"] == "first"
        assert (await translate(client, q="a", model="second")).json()["model"] == "second"
        assert (await translate(client, q="a", source="fr", target="en")).json()["model"] == "second"
        wrong = await translate(client, q="a", model="third")
        assert (wrong.status_code, wrong.json()["field"]) == (400, "source")
        assert "de" in wrong.json()["error"]
        no_pair = await translate(client, q="a", source="de", target="en")
        assert (no_pair.status_code, no_pair.json()["field"]) == (400, "target")


async def test_each_text_says_which_weights_translated_it(serve: Serve) -> None:
    double = DoubleBackend(("first", (("en", "de"),)), ("second", (("fr", "de"),)))
    texts = ["Good morning, where is the station?", "Bonjour, où est la gare ?", ""]
    async with serve(double) as client:
        body = (await translate(client, q=texts, source="auto", target="de")).json()
        versions = {model["name"]: model["version"] for model in (await client.get("/models")).json()}
    assert body["model"] == ["first", "second", None]
    assert body["model_version"] == [versions["first"], versions["second"], None]


async def test_the_languages_that_a_browser_names_decide_short_texts(client: httpx.AsyncClient) -> None:
    for languages, expected in (({}, "fr"), ({"Accept-Language": "de;q=0.5, en-GB, *;q=0.1"}, "en")):
        detected = (await client.post("/detect", json={"q": "Chat"}, headers=languages)).json()
        assert detected[0]["language"] == expected
        answer = await client.post("/translate", json={"q": "Chat", "target": "fr"}, headers=languages)
        assert answer.json()["detectedLanguage"]["language"] == expected


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_sentences_in_the_target_language_stay(client: httpx.AsyncClient, is_streamed: bool) -> None:
    french = "Je ne sais vraiment pas où elle est."
    body = {"q": f"Where is the railway station? {french} Nobody here could tell me.", "target": "fr"}
    accept = {"Accept": "text/event-stream"} if is_streamed else {}
    response = await client.post("/translate", json=body, headers=accept)
    events = response.text.split("data: ") if is_streamed else [response.text]
    answer = json.loads(events[-1])
    expected = f"WHERE IS THE RAILWAY STATION? {french} NOBODY HERE COULD TELL ME."
    assert answer["translatedText"] == expected
    assert answer["detectedLanguage"] == {"language": "en", "confidence": 60.2}
    beginnings = [json.loads(event.split("\n")[0])["translatedText"] for event in events[1:-1]]
    assert all(expected.startswith(beginning) for beginning in beginnings)
