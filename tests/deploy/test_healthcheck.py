"""The container's health check, run as the container runs it: a process with an exit status."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

HEALTHCHECK = Path(__file__).parents[2] / "deploy" / "healthcheck.py"


@contextmanager
def service(status: int) -> Iterator[int]:
    """A server on a free port that answers `/readyz` with a status, and anything else with 404."""

    class Ready(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/readyz" else 404)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Keep the test's output clean."""

    with HTTPServer(("127.0.0.1", 0), Ready) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def check(port: int) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "DRAGOMAN_PORT": str(port)}
    # It may wait longer than a container's may: this process may be kept waiting too.
    impatient, patient = "TIMEOUT_SECONDS = 2.0", "TIMEOUT_SECONDS = 60.0"
    text = HEALTHCHECK.read_text(encoding="utf-8")
    assert impatient in text
    # -I: nothing but the standard library can be imported.
    command = [sys.executable, "-I", "-S", "-c", text.replace(impatient, patient)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)


def test_a_ready_service_is_healthy() -> None:
    with service(200) as port:
        outcome = check(port)
    assert (outcome.returncode, outcome.stderr) == (0, "")


def test_a_service_that_is_not_ready_is_unhealthy_and_says_why() -> None:
    with service(503) as port:
        outcome = check(port)
    assert outcome.returncode == 1
    assert "503" in outcome.stderr
    assert "Traceback" not in outcome.stderr


def test_a_service_that_does_not_answer_is_unhealthy() -> None:
    with socket.socket() as held:  # no process listens there, and none can
        held.bind(("127.0.0.1", 0))
        outcome = check(held.getsockname()[1])
    assert outcome.returncode == 1
    assert "Traceback" not in outcome.stderr
