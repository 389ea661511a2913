"""Clients that ask again and again, and write down what became of each request."""

import json
import threading
import time
from collections import Counter
from http.client import HTTPConnection, HTTPException
from types import TracebackType
from typing import Self

from tests.app.remote import JSON, Live

TEXTS = [
    f"Where is station number {number}, and who is there at this hour of the night?" for number in range(4)
]


class Traffic:
    """As many requests in flight as there are clients, from entering the block to leaving it.

    Half of the clients keep their connection, half open one for each request. A client ends when its
    connection is refused.

    Attributes:
        outcomes: How many requests ended so: by status, or as `lost` if they were sent and not answered.
        versions: Answers by model_version.
        late: Answers of status 200 since `mark`.
    """

    def __init__(self, live: Live, clients: int) -> None:
        self.outcomes: Counter[str] = Counter()
        self.versions: Counter[str] = Counter()
        self.late = 0
        self._port = live.port
        self._is_marked = False
        self._is_over = threading.Event()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._work, args=(n % 2 == 0,)) for n in range(clients)]
        self._body = json.dumps({"q": TEXTS, "source": "en", "target": "fr"})

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        self.join()

    def join(self) -> None:
        """Wait until all clients have ended."""
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()

    def mark(self) -> None:
        """From now on answers are late."""
        self._is_marked = True

    def wait_for_answers(self, count: int, seconds: float = 300) -> None:
        """Wait until there are so many of status 200 more than now."""
        until, enough = time.monotonic() + seconds, self.outcomes["200"] + count
        while self.outcomes["200"] < enough:
            assert time.monotonic() < until
            time.sleep(0.02)

    def _work(self, keeps_alive: bool) -> None:
        connection: HTTPConnection | None = None
        while not self._is_over.is_set():
            if connection is None:
                connection = HTTPConnection("127.0.0.1", self._port, timeout=300)
                try:
                    connection.connect()
                except OSError:
                    return
            status, is_last = self._exchange(
                connection, JSON if keeps_alive else JSON | {"Connection": "close"}
            )
            if status != "200":
                time.sleep(0.02)
            if is_last:
                connection.close()
                connection = None
        if connection is not None:
            connection.close()

    def _exchange(self, connection: HTTPConnection, headers: dict[str, str]) -> tuple[str, bool]:
        """One request: its outcome, and whether the connection ends with it."""
        try:
            connection.request("POST", "/translate", self._body, headers)
            response = connection.getresponse()
            body = response.read()
        except (OSError, HTTPException):
            self._count("lost", None)
            return "lost", True
        status = str(response.status)
        self._count(status, json.loads(body).get("model_version"))
        return status, response.will_close

    def _count(self, outcome: str, version: str | None) -> None:
        with self._lock:
            self.outcomes[outcome] += 1
            self.late += outcome == "200" and self._is_marked
            if version is not None:
                self.versions[version] += 1
