"""File descriptors: how many are claimed, and what happens where there are none."""

import resource
import socket
from contextlib import ExitStack

import pytest

from app.connection import listening
from tests.app.remote import Live, running

LIMITED = (
    "-c",
    "import resource, runpy; resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)); "
    "runpy.run_module('tests.app.live', run_name='__main__')",
)


@pytest.mark.parametrize(
    ("soft", "hard", "granted", "room"),
    [
        (64, 64, None, 32),
        (1024, 4096, 4096, 3968),
        (1024, resource.RLIM_INFINITY, 65_536, 65_408),
        (200_000, 200_000, None, 199_872),
    ],
)
def test_the_limit_is_raised_and_something_kept_back(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, granted: int | None, room: int
) -> None:
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: asked.append(limits))
    assert listening.claim_descriptors() == room
    assert asked == ([] if granted is None else [(granted, hard)])


def connect(stack: ExitStack, service: Live, count: int, sent: bytes = b"") -> None:
    """Open connections that stay open, and send the same on each."""
    for _ in range(count):
        connection = stack.enter_context(socket.create_connection(("127.0.0.1", service.port), timeout=10))
        connection.sendall(sent)


@pytest.mark.parametrize("sent", [b"", b"GET /livez HTTP/1.1\r\nHost:"])
def test_more_connections_than_descriptors_do_not_lock_clients_out(sent: bytes) -> None:
    with running(command=LIMITED) as service, ExitStack() as stack:
        connect(stack, service, 200, sent)
        for _ in range(5):
            assert service.translate()[0] == 200
