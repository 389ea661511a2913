"""Who is turned away at the first sight of a head."""

import hashlib
import json
from pathlib import Path

import pytest

from app.lifecycle.context import Context
from app.settings import Settings
from tests.app.connection.connection import Wire, porter_of

pytestmark = pytest.mark.anyio

BODY = b'{"q": "one", "source": "en", "target": "fr"}'


def request(body: bytes = BODY, *fields: bytes, path: bytes = b"/translate") -> bytes:
    lines = [b"POST %b HTTP/1.1" % path, b"Host: here", b"Content-Length: %d" % len(body), *fields]
    return b"\r\n".join([*lines, b"", body])


class House:
    """A porter whose house has room for two, and connections to it."""

    def __init__(self) -> None:
        context = Context.of(Settings(_env_file=None, max_requests=2))
        self.metrics = context.metrics
        self.porter = context.header_admission()

    def wire(self) -> Wire:
        return Wire(porter=self.porter)

    def fill(self) -> None:
        self.porter.enter("first")
        self.porter.enter("second")

    def refused(self) -> float:
        value = self.metrics.registry.get_sample_value("dragoman_rejected_total", {"reason": "house_full"})
        return value or 0.0


@pytest.fixture
def house() -> House:
    return House()


def answers(wire: Wire) -> list[tuple[bytes, dict[str, str]]]:
    """Head and body of each answer of the porter."""
    parts = wire.written.split(b"\r\n\r\n")
    heads = [part[part.find(b"HTTP/1.1") :] for part in parts[:-1]]
    bodies = [part[: part.find(b"}") + 1] for part in parts[1:]]
    return [(head, json.loads(body)) for head, body in zip(heads, bodies, strict=True)]


async def test_who_finds_room_leaves_it_with_the_answer(house: House) -> None:
    wire = house.wire()
    for _ in range(5):
        await wire.send(request())
    assert wire.statuses == [200] * 5
    assert house.porter.refusal("anybody", ()) is None


async def test_in_a_full_house_work_is_refused_and_the_connection_lives(house: House) -> None:
    house.fill()
    wire = house.wire()
    await wire.send(request(BODY, b"X-Request-ID: mine") + request())
    assert wire.statuses == [503, 503]
    assert wire.seen == []
    assert not wire.has_ended
    (head, body), _ = answers(wire)
    assert b"Retry-After: 1" in head
    assert (body["code"], body["request_id"]) == ("house_full", "mine")
    assert body["error"] == body["message"]
    house.porter.leave("first")
    await wire.send(request())
    assert wire.statuses == [503, 503, 200]


async def test_who_was_refused_is_not_waited_for_any_longer_than_others(house: House) -> None:
    house.fill()
    wire = house.wire()
    await wire.send(request() + request())
    patience = wire.protocol.timeout_keep_alive_task
    assert patience is not None
    await wire.send(request()[:9])
    assert patience.cancelled()
    assert wire.protocol.timeout_keep_alive_task is None


async def test_what_brings_no_work_is_always_let_in(house: House) -> None:
    house.fill()
    wire = house.wire()
    await wire.send(b"GET /livez HTTP/1.1\r\nHost: here\r\n\r\n" + request(path=b"/elsewhere"))
    assert wire.statuses == [200, 200]


async def test_a_body_that_comes_later_is_thrown_away(house: House) -> None:
    house.fill()
    wire = house.wire()
    whole = request()
    for byte in whole:
        await wire.send(bytes([byte]))
    assert wire.statuses == [503]
    await wire.send(whole)
    assert wire.statuses == [503, 503]


@pytest.mark.parametrize(
    "head",
    [
        b"Content-Length: 1000000",
        b"Transfer-Encoding: chunked",
        b"Content-Length: 10\r\nExpect: 100-continue",
    ],
)
async def test_a_body_that_is_not_worth_waiting_for_ends_the_connection(house: House, head: bytes) -> None:
    house.fill()
    wire = house.wire()
    await wire.send(b"POST /detect HTTP/1.1\r\nHost: here\r\n%b\r\n\r\n" % head)
    assert wire.statuses == [503]
    assert b"Connection: close" in wire.written
    assert wire.has_ended
    await wire.send(b"more of it")
    assert wire.statuses == [503]


async def test_no_body_is_no_reason_to_end(house: House) -> None:
    house.fill()
    wire = house.wire()
    await wire.send(b"POST /translate HTTP/1.1\r\nHost: here\r\n\r\n" * 2)
    assert wire.statuses == [503, 503]


async def test_who_wants_to_leave_may(house: House) -> None:
    house.fill()
    wire = house.wire()
    await wire.send(request(BODY, b"Connection: close"))
    assert wire.statuses == [503]
    assert b"Connection: close" in wire.written
    assert wire.has_ended


async def test_one_client_leaves_room_for_another() -> None:
    porter = porter_of(10)
    while porter.refusal("greedy", ()) is None:
        porter.enter("greedy")
    assert porter.refusal("modest", ()) is None


@pytest.mark.parametrize(
    ("authorization", "visitor"),
    [
        (b"Bearer right", "key:alice"),
        (b"DeepL-Auth-Key right", "key:alice"),
        (b"Bearer invented", "10.0.0.1"),
        (b"Basic right", "10.0.0.1"),
        (b"", "10.0.0.1"),
    ],
)
def test_clients_are_told_apart_by_keys_that_are_ours_or_else_by_address(
    tmp_path: Path, authorization: bytes, visitor: str
) -> None:
    keys = tmp_path / "keys"
    keys.write_text(f"alice:{hashlib.sha256(b'right').hexdigest()}\n")
    porter = porter_of(2, api_keys_file=keys)
    fields = [(b"host", b"here"), (b"authorization", authorization)]
    assert porter.visitor(b"POST", b"/translate?x=1", fields, ("10.0.0.1", 4711)) == visitor


def test_behind_a_proxy_nobody_is_taken_for_somebody_else() -> None:
    porter = porter_of(2, trusted_proxies="10.0.0.1")
    visitors = {porter.visitor(b"POST", b"/detect", (), ("10.0.0.1", port)) for port in (1, 2)}
    assert len(visitors) == 2


def test_what_is_not_posted_brings_no_work(house: House) -> None:
    assert house.porter.visitor(b"GET", b"/translate", (), ("10.0.0.1", 4711)) is None


async def test_a_page_of_another_origin_is_answered_further_inside(house: House) -> None:
    house.fill()
    wire = house.wire()
    await wire.send(request(BODY, b"Origin: https://example.org"))
    assert wire.statuses == [200]


async def test_a_connection_that_is_lost_leaves(house: House) -> None:
    porter = porter_of(1)
    wire = Wire(porter=porter)
    head, _, _ = request().partition(BODY)
    await wire.send(head)
    assert porter.refusal("another", ()) is not None
    wire.protocol.connection_lost(None)
    assert porter.refusal("another", ()) is None


async def test_everybody_is_counted_and_few_are_told_of_in_the_log(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    house.fill()
    wire = house.wire()
    with caplog.at_level("INFO"):
        for _ in range(10):
            await wire.send(request())
    assert house.refused() == 10
    request_totals = house.metrics.request_totals()
    assert (request_totals["accepted"], request_totals["refused"]) == (10, 10)
    sample = ("dragoman_requests_total", {"endpoint": "/translate", "status": "503"})
    assert house.metrics.registry.get_sample_value(*sample) == 10
    assert len(caplog.records) == 1
