"""Hostile bytes over a socket to the real service: the stated answer, nothing of theirs in it, no trace."""

import json
import re
import sys
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.app.http.hostile import BODIES, CANARY, FIELDS, GOOD, HEADS, SIZES, TEXTS, Case
from tests.app.remote import Live, running

_MOST_GROWTH = 32 * 2**20
_HEAD = re.compile(rb"HTTP/1\.1 (\d{3}) [A-Za-z -]*\r\n")


# Deadlines do not pass, however busy the machine is.
UNHURRIED: dict[str, Any] = {"real": True, "DRAGOMAN_REQUEST_TIMEOUT_MS": "300000"}


@pytest.fixture(scope="module")
def service() -> Iterator[Live]:
    """The real one, with the embedded checkpoint."""
    with running(**UNHURRIED) as service:
        assert answer(service, GOOD).status == 200
        yield service


class Heard(NamedTuple):
    """What a client got."""

    status: int
    head: bytes
    body: bytes


def answer(service: Live, data: bytes) -> Heard:
    head, _, body = service.exchange(data).partition(b"\r\n\r\n")
    match = _HEAD.match(head + b"\r\n")
    assert match is not None
    return Heard(int(match[1]), head, body)


def judge(service: Live, case: Case) -> Heard:
    """Send a case; whatever the answer, the service has to be as before."""
    data, statuses = case
    with MemoryWatch(service):
        heard = answer(service, data)
    assert heard.status in statuses, heard.body[:500]
    phrase = HTTPStatus(heard.status).phrase.encode()
    assert heard.head.startswith(b"HTTP/1.1 %d %b" % (heard.status, phrase))
    if heard.status >= 400:
        assert len(heard.body) <= 2048
        body = json.loads(heard.body)
        assert {"error", "code", "request_id"} <= set(body) <= {"error", "code", "field", "request_id"}
        assert body["request_id"].encode() in heard.head
        for secret in (CANARY.encode(), b"Traceback", b".py", b"etc/"):
            assert secret not in heard.body
            assert secret not in heard.head
    assert answer(service, GOOD).status == 200
    return heard


class MemoryWatch:
    """Fails if the peak of the processes grew by more than it may; measured where the kernel tells."""

    def __init__(self, service: Live) -> None:
        self._folders = [Path(f"/proc/{pid}") for pid in service.processes()]

    def __enter__(self) -> None:
        if sys.platform == "linux":
            for folder in self._folders:
                (folder / "clear_refs").write_text("5")
            self._before = self._total("VmRSS")

    def __exit__(self, *_: object) -> None:
        if sys.platform == "linux":
            grown = self._total("VmHWM") - self._before
            assert grown <= _MOST_GROWTH

    def _total(self, name: str) -> int:
        texts = ((folder / "status").read_text() for folder in self._folders)
        return sum(1024 * int(re.findall(rf"{name}:\s+(\d+) kB", text)[0]) for text in texts)


def of(cases: dict[str, Case]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", cases.values(), ids=cases)


@of(TEXTS)
def test_any_text_is_translated_the_same_way_each_time(service: Live, case: Case) -> None:
    first, second = (json.loads(judge(service, case).body) for _ in range(2))
    assert first == second
    sent = json.loads(case[0].partition(b"\r\n\r\n")[2])["q"]
    assert controls(first["translatedText"]) <= controls(sent)
    assert bool(first["translatedText"].strip()) is bool(sent.strip())


def controls(text: str) -> set[str]:
    return {character for character in text if ord(character) < 32 or 127 <= ord(character) < 160}


@of(SIZES | FIELDS | BODIES)
def test_what_does_not_fit_is_refused(service: Live, case: Case) -> None:
    judge(service, case)


@of(HEADS)
def test_no_head_confuses(service: Live, case: Case) -> None:
    heard = judge(service, case)
    # A caller's id is given back only where it is harmless.
    assert b"rrrr" not in heard.head
    assert b"%0d" not in heard.head


def test_nothing_is_a_fault_of_ours_or_uncounted_in_two_processes() -> None:
    with running(**UNHURRIED, DRAGOMAN_PROCESSES="2") as service:
        for data, statuses in (*TEXTS.values(), *FIELDS.values(), *BODIES.values(), *HEADS.values()):
            assert answer(service, data).status in statuses
        # While it loaded, /readyz said 503.
        text = service.get("metrics")
    faults = re.findall(r'requests_total\{endpoint="([^"]*)",status="50[0-4]"', text)
    assert set(faults) <= {"/readyz"}
    (accepted,) = re.findall(r"^dragoman_accepted_total ([0-9.]+)$", text, re.MULTILINE)
    outcomes = re.findall(r"^dragoman_outcomes_total\{[^}]*\} ([0-9.]+)$", text, re.MULTILINE)
    # The one that asks for the metrics is in flight.
    assert float(accepted) == sum(map(float, outcomes)) + 1
