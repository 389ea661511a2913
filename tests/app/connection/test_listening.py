"""The listening socket: the last connections are accepted before it closes, and short descriptors."""

import asyncio
import errno
import math
import resource
import socket
from types import SimpleNamespace

import pytest

from app.connection.listening import _INTERVAL_SECONDS, Listener, accept_queued, claim_descriptors, listen
from model.errors import ConfigError
from tests.app.conftest import until

pytestmark = pytest.mark.anyio


async def test_queued_connections_are_accepted() -> None:
    accepted = 0

    async def welcome(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal accepted
        accepted += 1
        writer.close()

    with listen("127.0.0.1", 0) as listener:
        address = listener.getsockname()
        server = await asyncio.start_server(welcome, sock=listener, backlog=1)
        listener.listen(100)
        clients = [socket.create_connection(address, timeout=10) for _ in range(30)]
        assert await accept_queued([listener], 10)
        server.close()
        await until(lambda: accepted >= len(clients))
        for client in clients:
            assert client.recv(1) == b""
            client.close()
    assert accepted == 30


async def test_none_connects_once_the_queue_is_empty() -> None:
    """A client that connected after the last look at the queue would be reset when the listener closes."""
    with listen("127.0.0.1", 0) as listener:
        assert await accept_queued([listener], 10)
        with pytest.raises(TimeoutError):
            socket.create_connection(listener.getsockname(), timeout=0.2)


async def test_answers_do_not_wait_for_acknowledgements() -> None:
    with listen("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname(), timeout=10):
        connection, _ = listener.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


async def test_it_does_not_wait_for_ever() -> None:
    with listen("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname(), timeout=10):
        assert not await accept_queued([listener], 0.05)


async def test_a_lack_of_descriptors_is_logged_once_an_iteration(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_listener: socket.socket) -> None:
        raise OSError(errno.EMFILE, "too many open files")

    told: list[object] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, details: told.append(details["message"]))
    with listen("127.0.0.1", 0) as listener:
        async with await asyncio.start_server(lambda *_: None, sock=listener, backlog=16):
            monkeypatch.setattr(socket.socket, "accept", fail)
            with socket.create_connection(listener.getsockname(), timeout=10):
                await until(lambda: told)
                monkeypatch.undo()
                assert told == ["socket.accept() out of system resource"]


async def test_while_descriptors_are_short_there_is_one_connection_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 1000.0
    monkeypatch.setattr("app.connection.listening.time", SimpleNamespace(monotonic=lambda: now))
    with listen("127.0.0.1", 0) as listener:
        assert isinstance(listener, Listener)
        clients = [socket.create_connection(listener.getsockname(), timeout=10) for _ in range(3)]
        clients.append(listener.accept()[0])
        listener._scarce_until = math.inf
        clients.append(listener.accept()[0])
        for pause in (0.0, 0.9 * _INTERVAL_SECONDS):
            now += pause
            with pytest.raises(BlockingIOError):
                listener.accept()
        now += 0.2 * _INTERVAL_SECONDS
        clients.append(listener.accept()[0])
        for client in clients:
            client.close()


async def test_an_address_that_is_taken_is_named() -> None:
    with listen("127.0.0.1", 0) as listener, pytest.raises(ConfigError) as refusal:
        listen("127.0.0.1", listener.getsockname()[1])
    assert refusal.value.field == "port"


@pytest.mark.parametrize("host", ["a..b", "x" * 64 + ".example", "no.such.host.invalid"])
async def test_a_host_that_is_none_is_named(host: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        listen(host, 0)
    assert (refusal.value.field, refusal.value.value) == ("host", host)


@pytest.mark.parametrize(
    ("soft", "hard", "granted", "room"),
    [
        (64, 64, None, 32),
        (1024, 4096, 4096, 3968),
        (1024, resource.RLIM_INFINITY, 65_536, 65_408),
        (200_000, 200_000, None, 199_872),
    ],
)
async def test_the_limit_is_raised_and_something_kept_back(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, granted: int | None, room: int
) -> None:
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: asked.append(limits))
    assert claim_descriptors() == room
    assert asked == ([] if granted is None else [(granted, hard)])
