"""Answers as bytes."""

import pytest

from app.api.head import Head
from app.api.reply import Reply

DATE = (b"date", b"now")
PLAIN = (b"content-type", b"text/plain")


def reply_to(method: str = "GET", version: str = "1.1") -> Reply:
    return Reply(Head(method, b"/", version, [], 0, False, False), [DATE])


def test_an_answer_of_one_part_has_its_length() -> None:
    reply = reply_to()
    reply.start(200, [PLAIN])
    assert not reply.has_begun
    assert reply.part(b"hello", is_last=True, closes=False) == (
        b"HTTP/1.1 200 OK\r\ndate: now\r\ncontent-type: text/plain\r\ncontent-length: 5\r\n\r\nhello"
    )
    assert reply.has_begun
    assert not reply.closes


def test_an_answer_of_unknown_length_comes_in_chunks() -> None:
    reply = reply_to()
    reply.start(200, [])
    parts = [reply.part(part, is_last=not part, closes=False) for part in (b"a" * 17, b"b", b"")]
    assert parts[0].endswith(b"\r\ntransfer-encoding: chunked\r\n\r\n11\r\n" + b"a" * 17 + b"\r\n")
    assert parts[1:] == [b"1\r\nb\r\n", b"0\r\n\r\n"]


def test_for_http_1_0_the_end_of_the_connection_is_the_end_of_the_answer() -> None:
    reply = reply_to(version="1.0")
    reply.start(200, [])
    head = reply.part(b"a", is_last=False, closes=False)
    assert head == b"HTTP/1.1 200 OK\r\ndate: now\r\nconnection: close\r\n\r\na"
    assert reply.part(b"b", is_last=True, closes=False) == b"b"
    assert reply.closes


@pytest.mark.parametrize(("method", "status"), [("HEAD", 200), ("GET", 204), ("GET", 304)])
def test_some_answers_have_no_body(method: str, status: int) -> None:
    reply = reply_to(method)
    reply.start(status, [(b"content-length", b"5")] if method == "HEAD" else [])
    data = reply.part(b"hello", is_last=True, closes=False)
    assert data.endswith(b"\r\n\r\n")
    assert b"transfer-encoding" not in data


@pytest.mark.parametrize("said", [True, False])
def test_the_end_of_the_connection_is_said_once(said: bool) -> None:
    reply = reply_to()
    reply.start(200, [(b"connection", b"close")] if said else [])
    assert reply.part(b"", is_last=True, closes=not said).count(b"connection: close\r\n") == 1
    assert reply.closes


@pytest.mark.parametrize("field", [(b"a", b"b\r\nc: d"), (b"a", b"b\nc"), (b"a\r", b"b")])
def test_no_field_becomes_two(field: tuple[bytes, bytes]) -> None:
    reply = reply_to()
    reply.start(200, [field])
    with pytest.raises(RuntimeError):
        reply.part(b"", is_last=True, closes=False)


@pytest.mark.parametrize("body", [b"four", b"sixsix"])
def test_the_declared_length_is_kept(body: bytes) -> None:
    reply = reply_to()
    reply.start(200, [(b"content-length", b"5")])
    with pytest.raises(RuntimeError):
        reply.part(body, is_last=True, closes=False)


def test_an_answer_starts_once_and_before_its_body() -> None:
    reply = reply_to()
    with pytest.raises(RuntimeError):
        reply.part(b"", is_last=True, closes=False)
    reply.start(200, [])
    with pytest.raises(RuntimeError):
        reply.start(200, [])


def test_a_status_need_not_be_registered() -> None:
    reply = reply_to()
    reply.start(499, [])
    assert reply.part(b"", is_last=True, closes=False).startswith(b"HTTP/1.1 499 Unknown\r\n")
