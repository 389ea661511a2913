"""Requests of the kinds that LibreTranslate's own tests send, with what must be in the answers.

Its messages are not ours, and a field that is missing or wrong is a 422 here where it is a 400 there.
"""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.app.remote import Live, running

WORDS = {"source": "en", "target": "es"}
LETTER = {"file": ("a.txt", b"one two")}


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with running(DOUBLE_PAIRS="en-es,es-en") as live, connect(live) as client:
        yield client


def connect(live: Live) -> httpx.Client:
    return httpx.Client(base_url=live.url, timeout=60)


@pytest.mark.parametrize(
    ("path", "request_", "expected"),
    [
        ("/translate", {"data": WORDS | {"q": "one", "format": "text"}}, {"translatedText": "ONE"}),
        ("/translate", {"data": WORDS | {"q": "😀"}}, {"translatedText": "😀"}),
        ("/translate", {"json": WORDS | {"q": ["😀", "😁"]}}, {"translatedText": ["😀", "😁"]}),
        (
            "/translate",
            {"data": WORDS | {"q": "<p>one</p>", "format": "html"}},
            {"translatedText": "<p>ONE</p>"},
        ),
        (
            "/translate",
            {"json": WORDS | {"q": "one two", "alternatives": 2}},
            {"translatedText": "ONE TWO", "alternatives": ["ONE ONE TWO", "ONE ONE ONE TWO"]},
        ),
        (
            "/translate",
            {"json": WORDS | {"q": ["one", "two"], "alternatives": 1}},
            {"alternatives": [["ONE ONE"], ["TWO TWO"]]},
        ),
        ("/suggest", {"data": WORDS | {"q": "one"}}, {"code": "invalid_field", "field": "s"}),
    ],
)
def test_fields_of_answers(
    client: httpx.Client, path: str, request_: dict[str, Any], expected: dict[str, object]
) -> None:
    answer = client.post(path, **request_).json()
    assert {name: answer[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("status", "path", "request_"),
    [
        (422, "/translate", {"data": WORDS}),
        (422, "/translate", {"data": {"q": "one", "source": "en"}}),
        (415, "/detect", {}),
        (422, "/translate_file", {"data": {"source": "en"}, "files": LETTER}),
        (400, "/translate_file", {"data": WORDS | {"source": "zz"}, "files": LETTER}),
    ],
)
def test_refusals_have_a_message(
    client: httpx.Client, status: int, path: str, request_: dict[str, Any]
) -> None:
    answer = client.post(path, **request_)
    assert (answer.status_code, bool(answer.json()["error"])) == (status, True)


def test_a_page_and_a_monitor_find_their_paths(client: httpx.Client) -> None:
    assert client.get("/health").json() == {"status": "ok"}
    assert client.get("/detect").status_code == 405
    settings = client.get("/frontend/settings").json()
    assert (settings["apiKeys"], settings["filesTranslation"]) == (False, True)
    assert ".txt" in settings["supportedFilesFormat"]
    assert {"code", "name", "targets"} <= set(client.get("/languages").json()[0])
    assert client.get("/", headers={"Accept": "text/html"}).headers["Content-Type"].startswith("text/html")
