"""What DeepL's own package makes of our refusals: its exceptions, with our sentences."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import deepl
import pytest

from tests.app.remote import Live, running, wait_until_in_flight
from tests.clients.conftest import connect

pytestmark = pytest.mark.usefixtures("once")


@pytest.mark.parametrize(
    ("wish", "sentence"),
    [
        ({"formality": "more"}, "`formality` cannot be `more`"),
        ({"formality": "less"}, "`formality` cannot be `less`"),
        ({"formality": "rude"}, "`formality`: input should be 'default'"),
        ({"extra_body_parameters": {"source_lang": None, "glossary_id": "one"}}, "`glossary_id` needs"),
        ({"style_rule": "some-id"}, "`style_id` is not supported"),
        ({"translation_memory": "some-id"}, "`translation_memory_id` is not supported"),
        ({"custom_instructions": ["be brief"]}, "`custom_instructions` is not supported"),
        ({"tag_handling": "markdown"}, "`tag_handling`: input should be 'html' or 'xml'"),
        ({"tag_handling_version": "v2"}, "`tag_handling_version` is not supported"),
        ({"outline_detection": False}, "`outline_detection` cannot be `false`: which tags end a sentence"),
        ({"non_splitting_tags": ["b"]}, "`non_splitting_tags` is not supported"),
        ({"ignore_tags": ["x"]}, "`ignore_tags` needs `tag_handling`"),
        ({"split_sentences": "2"}, "`split_sentences`: input should be '0', '1' or 'nonewlines'"),
        ({"model_type": "best"}, "`model_type`: input should be"),
        ({"extra_body_parameters": {"auth_key": "k"}}, "`auth_key` is not supported"),
        ({"extra_body_parameters": {"s3cret!": 1}}, "the request holds an unknown field"),
        ({"extra_body_parameters": {"txt": 1}}, "the request has no field `txt`; did you mean `text`?"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(live: Live, wish: dict[str, object], sentence: str) -> None:
    with pytest.raises(deepl.DeepLException) as caught:
        connect(live).translate_text("one", source_lang="EN", target_lang="FR", **wish)
    assert str(caught.value).startswith("Bad request, message: ")
    assert sentence in str(caught.value)
    assert "s3cret" not in str(caught.value)
    assert (caught.value.http_status_code, caught.value.should_retry) == (400, False)


def test_glossaries_that_there_are_not(live: Live) -> None:
    client = connect(live)
    languages = {"source_lang": "EN", "target_lang": "FR"}
    for attempt in (
        lambda: client.translate_text("one", glossary="some-id", **languages),
        lambda: client.translate_text("one", glossary_ids=["one", "two"], **languages),
        lambda: client.get_glossary("../secret"),
        lambda: client.delete_multilingual_glossary("some-id"),
    ):
        with pytest.raises(deepl.DeepLException, match="message: there is no such") as caught:
            attempt()
        assert caught.value.http_status_code == 404


@pytest.mark.parametrize(("source", "target"), [("EN", "DE"), ("DE", "FR"), (None, "DE"), ("EN", "q" * 30)])
def test_languages_that_there_are_not(live: Live, source: str | None, target: str) -> None:
    name = "source_lang" if source == "DE" else "target_lang"
    with pytest.raises(deepl.DeepLException, match=f"`{name}` must be one of EN, FR$") as caught:
        connect(live).translate_text("one", source_lang=source, target_lang=target)
    assert caught.value.http_status_code == 400


@pytest.mark.parametrize(
    ("texts", "options", "field"),
    [(["a"] * 51, {}, '"field":"text"'), (["a", "b" * 10_001], {}, '"field":"text[1]"')],
)
def test_too_much_is_refused_with_its_place(
    live: Live, texts: list[str], options: dict[str, str], field: str
) -> None:
    with pytest.raises(deepl.DeepLException, match="at most") as caught:
        connect(live).translate_text(texts, source_lang="EN", target_lang="FR", **options)
    assert caught.value.http_status_code == 413
    assert field in str(caught.value)


def test_a_key_opens_and_a_wrong_one_does_not(guarded: Live) -> None:
    assert connect(guarded, "sesame").translate_text("one", target_lang="FR").text == "ONE"
    stranger = connect(guarded, "seesame")
    for attempt in (
        lambda: stranger.translate_text("one", target_lang="FR"),
        stranger.get_source_languages,
        stranger.get_target_languages,
        stranger.get_usage,
        stranger.get_glossary_languages,
    ):
        with pytest.raises(deepl.AuthorizationException, match="message: this API key is not valid"):
            attempt()


def test_usage_is_told_by_key(guarded: Live) -> None:
    ali, gimli = connect(guarded, "sesame"), connect(guarded, "mellon")
    before = [client.get_usage().character.count for client in (ali, gimli)]
    gimli.translate_text(["one two", "é 🙂"], target_lang="FR")
    after = [client.get_usage().character.count for client in (ali, gimli)]
    assert after == [before[0], before[1] + 10]


def test_a_rate_exceeded_is_worth_another_try() -> None:
    with running(DRAGOMAN_RATE_LIMIT="2/hour") as live:
        client = connect(live)
        for _ in range(2):
            client.translate_text("one", target_lang="FR")
        with pytest.raises(deepl.TooManyRequestsException, match="message: too many requests") as caught:
            client.translate_text("one", target_lang="FR")
        assert caught.value.should_retry
        assert client.get_usage().character.count == 6
        assert 'dragoman_rejected_total{reason="rate_limited"} 1.0' in live.get("metrics")


def test_no_room_is_worth_another_try_and_what_never_has_room_is_not(tmp_path: Path) -> None:
    gate, limits = tmp_path / "gate", {"DRAGOMAN_MAX_REQUESTS": "1", "DRAGOMAN_MAX_QUEUED_TOKENS": "10"}
    with running(DOUBLE_GATE=str(gate), **limits) as live:
        with pytest.raises(deepl.DeepLException, match="`text` is over the limit MAX_QUEUED_TOKENS") as large:
            connect(live).translate_text(["one two three"] * 40, source_lang="EN", target_lang="FR")
        assert (large.value.http_status_code, large.value.should_retry) == (413, False)
        with busy(live, gate) as results, pytest.raises(deepl.DeepLException) as caught:
            connect(live).translate_text("three", target_lang="FR")
        assert str(caught.value).startswith("Service unavailable, message: ")
        assert (caught.value.http_status_code, caught.value.should_retry) == (503, True)
        assert results == ["ONE TWO"]


@contextmanager
def busy(live: Live, gate: Path) -> Iterator[list[str]]:
    """While it lasts, the service translates a text; the translation is in the list afterwards."""
    results: list[str] = []
    client = threading.Thread(
        target=lambda: results.append(connect(live).translate_text("one two", target_lang="FR").text)
    )
    client.start()
    wait_until_in_flight(live, 1)
    try:
        yield results
    finally:
        gate.touch()
        client.join(timeout=60)
