"""`kill -9` of the service: those in flight see their connection end, the next start is ready again."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException

import pytest

from tests.app.remote import DOUBLE, JSON, REAL, Live, running, wait_for

TEXT = "Where is the station? I have lost my way, and my train leaves in ten minutes. " * 20


def body_of(text: str) -> bytes:
    return json.dumps({"q": text, "source": "en", "target": "fr"}).encode()


def require_in_flight(live: Live, count: int) -> None:
    if f"dragoman_requests_in_flight {count}.0" not in live.get("metrics"):
        raise OSError("not yet in flight")


@contextmanager
def held(port: int) -> Iterator[None]:
    """Nobody else is given the port meanwhile; a server may listen there all the same."""
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", port))
        yield


@pytest.mark.parametrize("command", [DOUBLE, pytest.param(REAL, marks=pytest.mark.slow)])
def test_only_those_in_flight_notice_and_the_next_start_is_ready_again(command: tuple[str, ...]) -> None:
    variables = {"DOUBLE_SECONDS": "0.5", "DRAGOMAN_WORKERS": "1"}
    outcomes: list[object] = []

    def ask(live: Live) -> None:
        try:
            outcomes.append(live.post(body_of(TEXT if command is REAL else "a b c d"), JSON)[0])
        except (OSError, HTTPException) as error:
            outcomes.append(type(error))

    with running(command=command, **variables) as live:
        before = live.post(body_of("one two"), JSON)
        clients = [threading.Thread(target=ask, args=(live,)) for _ in range(8)]
        for client in clients:
            client.start()
        wait_for(lambda: require_in_flight(live, len(clients) + 1), seconds=20)
        live.process.kill()
        for client in clients:
            client.join(timeout=10)
        assert len(outcomes) == len(clients)
        assert all(isinstance(outcome, type) for outcome in outcomes)
    at_the_same = variables | {"DRAGOMAN_PORT": str(live.port)}
    with held(live.port), running(command=command, **at_the_same) as live:  # waits a minute at most
        assert live.post(body_of("one two"), JSON) == before
