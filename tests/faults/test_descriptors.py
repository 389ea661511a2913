"""No file descriptors left: the process does not spin, and serves as before once there are some again."""

import os
import resource
import socket
import time
from pathlib import Path

import pytest

from tests.app.remote import Live, running, wait_for

MOST = 96
LIMITED = (
    "import resource, runpy",
    f"resource.setrlimit(resource.RLIMIT_NOFILE, ({MOST}, {MOST}))",
    "runpy.run_module('tests.app.live', run_name='__main__')",
)


def processor_seconds(live: Live) -> float:
    fields = Path(f"/proc/{live.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def half_open(live: Live) -> socket.socket:
    """A connection that says it will say something."""
    connection = socket.create_connection(("127.0.0.1", live.port), timeout=60)
    connection.sendall(b"POST /translate HTTP/1.1\r\nHost: x\r\n")
    return connection


def limit_now(live: Live, spare: int) -> None:
    """Whatever it reckoned with: from now on there are only so many more."""
    held = len(os.listdir(f"/proc/{live.process.pid}/fd"))
    _, hard = resource.prlimit(live.process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(live.process.pid, resource.RLIMIT_NOFILE, (held + spare, hard))


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processor time is read from /proc")
def test_without_descriptors_it_does_not_spin_and_serves_again_later() -> None:
    """Twice as many clients as it has room for, which lock no other out; then an unforeseen limit."""
    with running(command=("-c", "; ".join(LIMITED))) as live:
        for spare in (None, 4):
            if spare is not None:
                limit_now(live, spare)
            num_lines = len(live.log)
            crowd = [half_open(live) for _ in range(2 * MOST)]
            time.sleep(0.2)
            before = processor_seconds(live)
            time.sleep(1)
            assert processor_seconds(live) - before < 0.5
            assert live.process.poll() is None
            if spare is None:
                assert [live.translate()[0] for _ in range(5)] == [200] * 5
            assert sum("out of system resource" in line for line in live.log[num_lines:]) <= 10
            for connection in crowd:
                connection.close()

            wait_for(lambda: live.translate()[1]["translatedText"] == "ONE TWO")
            wait_for(lambda: len(os.listdir(f"/proc/{live.process.pid}/fd")) < MOST / 2)
