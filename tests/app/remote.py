"""The service in a process of its own, and ways to talk to it."""

import json
import multiprocessing
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
JSON = {"Content-Type": "application/json"}
_START_SECONDS = 300
_ENVIRONMENT = {"DRAGOMAN_PORT": "0", "OMP_NUM_THREADS": "1"}


def body_of(q: object, **fields: object) -> bytes:
    return json.dumps({"q": q, "source": "en", "target": "fr"} | fields).encode()


class Live:
    """A running process, its address, and the lines it has logged."""

    def __init__(self, process: "Forked | subprocess.Popen[str]", port: int, log: list[str]) -> None:
        self.process = process
        self.log = log
        self.port = port
        self.url = f"http://127.0.0.1:{port}/"

    def processes(self) -> list[int]:
        """The ids of the processes that serve: those of the supervisor, else the process itself."""
        started = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return [int(pid) for pid in started] or [self.process.pid]

    def get(self, path: str) -> str:
        with urllib.request.urlopen(self.url + path, timeout=60) as response:
            return str(response.read(), "utf-8")

    def samples(self) -> dict[str, float]:
        """All of ours of one scrape, without the prefix of their names."""
        found = re.findall(r"^dragoman_(\S+) (\S+)$", self.get("metrics"), re.MULTILINE)
        return {name: float(value) for name, value in found}

    def status(self, path: str) -> int:
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=60)) as connection:
            connection.request("GET", f"/{path}")
            return connection.getresponse().status

    def translate(self, q: object = "one two", **fields: object) -> tuple[int, dict[str, Any]]:
        """Status and answer of a request, from English into French if its fields say no more."""
        status, text = self.post(body_of(q, **fields), JSON)
        return status, json.loads(text)

    def post(self, body: bytes, headers: Mapping[str, str]) -> tuple[int, str]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            connection.request("POST", "/translate", body, headers)
            response = connection.getresponse()
            return response.status, str(response.read(), "utf-8")
        finally:
            connection.close()

    def exchange(self, data: bytes, *, end: bool = False) -> bytes:
        """Send bytes, read until the server closes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as connection:
            with suppress(ConnectionError):  # a client may be refused while it sends
                connection.sendall(data)
            if end:
                connection.shutdown(socket.SHUT_WR)
            received = b""
            with suppress(ConnectionResetError):
                while chunk := connection.recv(65536):
                    received += chunk
            return received


DOUBLE = ("-m", "tests.app.live")
REAL = ("-c", "from model.cli import main; main()", "serve")


_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["app.cli", "app.lifecycle.engine_backend", "model.cli.main", "tests.app.live"])


class Forked:
    """A service, forked from a process that has imported it; used as a Popen.

    The import takes half a second, and tests start seventy services.

    Args:
        environment: Its environment variables.
        is_real: Whether it is what `dragoman serve` runs, instead of a double.
    """

    def __init__(self, environment: dict[str, str], is_real: bool) -> None:
        from tests.app.live import serve_forked

        reader, writer = _FORKS.Pipe(duplex=False)
        with reader, writer:
            self._process = _FORKS.Process(
                target=serve_forked, args=(environment, writer, is_real), daemon=True
            )
            self._process.start()
            self.stderr = os.fdopen(os.dup(reader.fileno()), encoding="utf-8")
        assert self._process.pid is not None
        self.pid = self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        assert self._process.exitcode is not None, f"the service has not ended within {timeout} s"
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def terminate(self) -> None:
        self._process.terminate()

    def kill(self) -> None:
        self._process.kill()


def _start(
    command: Sequence[str] | None, is_real: bool, environment: dict[str, str]
) -> "Forked | subprocess.Popen[str]":
    if command is None:
        return Forked(environment, is_real)
    return subprocess.Popen(
        [sys.executable, *command], cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True
    )


def failed_start(**variables: str) -> tuple[int, list[str]]:
    """Exit status of a real service that cannot start, and its lines on standard error that are no events."""
    process = Forked(os.environ | _ENVIRONMENT | variables, is_real=True)
    impatience = threading.Timer(_START_SECONDS, process.kill)
    impatience.start()
    with process.stderr:
        lines = [line.rstrip("\n") for line in process.stderr if not line.startswith("{")]
    impatience.cancel()
    return process.wait(60), lines


@contextmanager
def running(
    *, command: Sequence[str] | None = None, real: bool = False, is_ready: bool = True, **variables: str
) -> Iterator[Live]:
    """A service that is ready.

    Args:
        command: Arguments of Python, such as DOUBLE and REAL; None forks a service, which is faster.
        real: Whether to fork the real service instead of a double.
        is_ready: Whether to wait until it has loaded its checkpoints; else it only listens.
        variables: Of the environment.
    """
    process = _start(command, real, os.environ | _ENVIRONMENT | variables)
    assert process.stderr is not None
    lines: list[str] = []
    log = threading.Thread(target=lines.extend, args=(process.stderr,), daemon=True)
    impatience = threading.Timer(_START_SECONDS, process.kill)
    impatience.start()
    try:
        while "listening" not in (line := process.stderr.readline()):
            assert line, "the process ended before it listened"
        impatience.cancel()
        port = int(json.loads(line)["url"].rpartition(":")[2])
        log.start()
        live = Live(process, port, lines)
        if is_ready:
            wait_for(lambda: live.get("readyz"), seconds=_START_SECONDS)
        yield live
    finally:
        impatience.cancel()
        started = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        children = started.read_text().split() if started.exists() else []
        process.kill()
        process.wait()
        for pid in children:
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        if log.ident is not None:
            log.join()
        process.stderr.close()


def wait_until_in_flight(live: Live, count: int) -> None:
    """Wait until so many requests are in flight, without the one that asks."""

    wait_for(lambda: f"dragoman_requests_in_flight {count + 1}.0" in live.get("metrics"))


def wait_until_draining(live: Live) -> None:
    """Until it heeds the signal to end, or has ended: another that comes too soon is taken for its echo."""

    wait_for(lambda: live.process.poll() is not None or live.status("readyz") == 503)


def wait_for(condition: Callable[[], object], seconds: float = 120) -> None:
    """Wait until the condition holds; an OSError means that it does not."""
    deadline = time.monotonic() + seconds
    while True:
        with suppress(OSError):
            if condition():
                return
        assert time.monotonic() < deadline
        time.sleep(0.05)
