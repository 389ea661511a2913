"""Clients of every kind, good and bad: each does one thing to a service, over and over."""

import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http.client import HTTPConnection
from random import Random

from benchmarks.load.texts import DIRECTIONS, TEXTS, document, fault
from tests.app.remote import JSON

STREAM = JSON | {"Accept": "text/event-stream"}
_HEAD = b"POST /translate HTTP/1.1\r\nHost: soak\r\nContent-Type: application/json\r\n"
# What is wrong, and the status that it gets.
OFFENCES: Sequence[tuple[bytes, int]] = (
    (_HEAD + b"Content-Length: 9\r\n\r\nnot JSON!", 422),
    (_HEAD + b'Content-Length: 12\r\n\r\n{"q":"\\ud800"', 422),
    (_HEAD + b"Content-Length: 2\r\n\r\n{}", 422),
    (_HEAD + b'Content-Length: 39\r\n\r\n{"q": "a", "source":"en","target":"xx"}', 400),
    (_HEAD + b"Content-Length: 5\r\nContent-Encoding: gzip\r\n\r\n\x1f\x8b\x08\x00\x00", 415),
    (_HEAD + b"Content-Length: 99999999\r\n\r\n", 413),
    (_HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
    (b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\nHost: soak\r\n\r\n", 414),
    (b"GET / HTTP/1.1\r\nHost: soak\r\nX: " + b"x" * 20_000 + b"\r\n\r\n", 431),
    (b"GET /no/such/path HTTP/1.1\r\nHost: soak\r\n\r\n", 404),
    (b"BREW /translate HTTP/1.1\r\nHost: soak\r\n\r\n", 405),
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
)


@dataclass
class Diary:
    """What all clients saw.

    Attributes:
        statuses: How often each HTTP status came.
        faults: What was wrong, and with whom.
    """

    statuses: Counter[int] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, status: int, wrong: str | None = None) -> None:
        """An answer, and what is wrong with it."""
        with self._lock:
            self.statuses[status] += 1
            if wrong is not None:
                self.faults.append(wrong)

    def complain(self, wrong: str) -> None:
        """No answer, though there should have been one."""
        with self._lock:
            self.faults.append(wrong)


@dataclass(frozen=True, kw_only=True)
class Visitor:
    """One client.

    Attributes:
        port: Of the service.
        diary: Where to note what it saw.
        draw: All that is random about it.
    """

    port: int
    diary: Diary
    draw: Random

    def translate(self) -> None:
        """A sentence, a list or a document, and a good answer to it."""
        source, target = self.draw.choice(DIRECTIONS)
        kinds: Sequence[str | list[str]] = (
            self.draw.choice(TEXTS[source]),
            self.draw.choices(TEXTS[source], k=self.draw.randint(2, 16)),
            document(self.draw, source),
        )
        text = self.draw.choice(kinds)
        status, body = self._post({"q": text, "source": source, "target": target}, JSON)
        wrong = fault(text, json.loads(body).get("translatedText"))
        self.diary.note(status, None if status == 200 and wrong is None else f"{status}: {wrong}")

    def watch(self) -> None:
        """A translation as it grows, to the end."""
        status, body = self._post(self._order(), STREAM)
        self.diary.note(status, None if b"event: done" in body else f"{status}: a stream without an end")

    def leave(self) -> None:
        """Hang up while waiting for an answer, or for more of it."""
        body = json.dumps(self._order()).encode()
        accept = b"Accept: text/event-stream\r\n" if self.draw.random() < 0.5 else b""
        request = b"%bContent-Length: %d\r\n%b\r\n%b" % (_HEAD, len(body), accept, body)
        with self._connection() as connection:
            connection.sendall(request[: self.draw.choice([len(request), len(request), len(request) // 2])])
            time.sleep(self.draw.uniform(0, 0.1))

    def offend(self) -> None:
        """Something that has to be refused."""
        self.commit(*self.draw.choice(OFFENCES))

    def commit(self, request: bytes, expected: int) -> None:
        """Send bytes, and see with which status they are refused."""
        with self._connection() as connection:
            connection.sendall(request)
            line = connection.makefile("rb").readline()
        status = int(line.split()[1]) if line else 0
        self.diary.note(status, None if status == expected else f"{status} for {request[:80]!r}")

    def _order(self) -> dict[str, object]:
        source, target = self.draw.choice(DIRECTIONS)
        return {"q": document(self.draw, source), "source": source, "target": target}

    def _post(self, order: dict[str, object], headers: dict[str, str]) -> tuple[int, bytes]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("POST", "/translate", json.dumps(order), headers)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def _connection(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=30)


def over_and_over(act: Callable[[], None], diary: Diary, pause: float, is_over: threading.Event) -> None:
    """Do it again and again; what should not have happened is noted, and goes on."""
    while not is_over.wait(pause):
        try:
            act()
        except (OSError, ValueError) as wrong:
            diary.complain(f"{act.__name__}: {type(wrong).__name__}: {wrong}")
