"""A text and a key go every way that there is, and are found nowhere but in the answer that was asked for."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.app.double import write_keys
from tests.app.remote import DOUBLE, JSON, Live, running, wait_for

TEXT = "zanzibar"
KEY = "key-of-quixote"
POISON = "poisonous"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """One that logs all it can, takes a key, fails at a word, and whose every step seems stuck."""
    keys = write_keys(tmp_path_factory.mktemp("keys"), alice=KEY)
    with running(
        command=DOUBLE,  # a fork has the command line and the environment of the process it came from
        DRAGOMAN_API_KEYS_FILE=str(keys),
        DRAGOMAN_LOG_LEVEL="debug",
        DRAGOMAN_WATCHDOG_SECONDS="0.1",
        DOUBLE_SECONDS="0.25",
        DOUBLE_POISON=POISON,
    ) as service:
        yield service


def ask(service: Live, path: str = "/translate", key: str = KEY, **fields: object) -> tuple[int, str]:
    body = {"q": TEXT, "source": "en", "target": "fr"} | fields
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    answer = httpx.post(service.url.rstrip("/") + path, json=body, headers=headers, timeout=60)
    return answer.status_code, answer.text


def ask_in_query(service: Live, key: str) -> tuple[int, str]:
    target = f"/translate?q={TEXT}&source=en&target=fr&api_key={key}"
    head = f"POST {target} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    answer = service.exchange(head.encode())
    head, _, body = answer.decode().partition("\r\n\r\n")
    return int(head.split()[1]), body


def assert_clean(*texts: str) -> None:
    for text in texts:
        assert TEXT not in text.lower()
        assert "quixote" not in text.lower()


def test_what_a_client_sends_is_in_no_log_and_no_other_answer(service: Live) -> None:
    assert ask(service)[0] == 200
    assert service.post(json.dumps({"q": TEXT, "target": "fr", "api_key": KEY}).encode(), JSON)[0] == 200
    assert ask_in_query(service, KEY)[0] == 200

    refused = [
        ask(service, key=f"{KEY}-of-la-mancha"),
        ask(service, key="", api_key=f"{TEXT}-{KEY}"),
        ask(service, target=TEXT),
        ask(service, model=KEY),
        ask(service, **{TEXT: KEY}),
        ask(service, q=["a", {TEXT: KEY}]),
        ask(service, q=TEXT * 10_000),
        ask(service, path=f"/{TEXT}/{KEY}?{TEXT}={KEY}"),
        ask_in_query(service, f"{KEY}-of-la-mancha"),
        ask(service, q=f"{POISON} {TEXT}"),
        ask(service, q=f"{TEXT} " * 8, timeout_ms=100),
    ]
    assert [status for status, _ in refused] == [403, 403, 400, 400, 422, 422, 413, 404, 403, 500, 504]
    wire = [
        service.exchange(f"GET /{TEXT} HTTP/1.1\r\nA: {KEY}\0\r\n\r\n".encode()),
        service.exchange(f"{TEXT} {KEY}\r\n\r\n".encode()),
        service.exchange(f"GET /livez HTTP/1.1\r\nHost: {TEXT}\r\nA: {KEY}".encode() + b"a" * 20_000),
    ]
    _, unknown_field = refused.pop(4)
    assert f"no field `{TEXT}`" in unknown_field  # the client reads the name that it sent, and not the value
    assert "quixote" not in unknown_field
    assert_clean(*(body for _, body in refused), *(answer.decode() for answer in wire))
    assert_clean(service.get("metrics"), service.get("models"))
    assert_clean(
        *(Path(f"/proc/{service.process.pid}/{name}").read_text() for name in ("cmdline", "environ"))
    )

    wait_for(lambda: any("Thread 0x" in line or "Current thread" in line for line in service.log))
    service.process.send_signal(signal.SIGABRT)
    service.process.wait(timeout=60)
    assert_clean(*service.log)
    assert sum('"event":"request failed"' in line for line in service.log) == 1
