"""`kill -9` of the service: those in flight see their connection end, the next start is ready again."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException

import pytest

from tests.app.remote import Live, running, wait_until_in_flight

ROOM = {"DRAGOMAN_WORKERS": "1", "DRAGOMAN_MAX_QUEUED_TOKENS": "100000000", "DRAGOMAN_MAX_BATCH_TOKENS": "16"}
TEXTS, SENTENCES = 20, 150


def many_texts(client: int) -> list[str]:
    """No two sentences alike: those of one client keep the embedded checkpoint busy for many seconds."""
    return [
        " ".join(f"I lost my way near house {client}.{text}.{number}." for number in range(SENTENCES))
        for text in range(TEXTS)
    ]


@contextmanager
def held(port: int) -> Iterator[None]:
    """Keep other processes from taking the port; a server may still listen there."""
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", port))
        yield


@pytest.mark.slow
def test_only_requests_in_flight_are_lost_and_the_next_start_is_ready_again() -> None:
    outcomes: list[object] = []

    def ask(live: Live, client: int) -> None:
        try:
            outcomes.append(live.translate(many_texts(client))[0])
        except (OSError, HTTPException) as error:
            outcomes.append(type(error))

    with running(real=True, **ROOM) as live:
        before = live.translate()
        clients = [threading.Thread(target=ask, args=(live, client)) for client in range(8)]
        for client in clients:
            client.start()
        wait_until_in_flight(live, len(clients))
        live.process.kill()
        for client in clients:
            client.join(timeout=60)
        assert len(outcomes) == len(clients)
        assert all(isinstance(outcome, type) for outcome in outcomes)
    with held(live.port), running(real=True, DRAGOMAN_PORT=str(live.port), **ROOM) as live:
        assert live.translate() == before
