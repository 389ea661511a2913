"""Requests of the kinds that LibreTranslate's own tests send, with what must be in the answers.

Its messages are not ours, and a field that is missing or wrong is a 422 here where it is a 400 there.
"""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.app.remote import Live

WORDS = {"source": "en", "target": "fr"}
LETTER = {"file": ("a.txt", b"one two")}


@pytest.fixture(scope="module")
def client(live: Live) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=live.url, timeout=60) as client:
        yield client


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        ({"data": WORDS | {"q": "one", "format": "text"}}, {"translatedText": "ONE"}),
        ({"data": WORDS | {"q": "😀"}}, {"translatedText": "😀"}),
        ({"json": WORDS | {"q": ["😀", "😁"]}}, {"translatedText": ["😀", "😁"]}),
        ({"data": WORDS | {"q": "<p>one</p>", "format": "html"}}, {"translatedText": "<p>ONE</p>"}),
        ({"json": WORDS | {"q": "a b", "alternatives": 2}}, {"alternatives": ["A A B", "A A A B"]}),
        ({"json": WORDS | {"q": ["a", "b"], "alternatives": 1}}, {"alternatives": [["A A"], ["B B"]]}),
    ],
)
def test_fields_of_answers(
    client: httpx.Client, request_: dict[str, Any], expected: dict[str, object]
) -> None:
    answer = client.post("/translate", **request_).json()
    assert {name: answer[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("status", "path", "request_"),
    [
        (422, "/translate", {"data": WORDS}),
        (422, "/translate", {"data": {"q": "one", "source": "en"}}),
        (415, "/detect", {}),
        (422, "/suggest", {"data": WORDS | {"q": "one"}}),
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
