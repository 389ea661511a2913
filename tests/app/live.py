"""The service in a process of its own, with a double backend: `python -m tests.app.live`.

Options are environment variables, as for the real one:

- `DOUBLE_SECONDS`: How long a step takes.
- `DOUBLE_HURRY`: A file; steps that begin once it exists take no time.
- `DOUBLE_GATE`: A file; a step does not end before that exists.
- `DOUBLE_PATIENCE`: Seconds that a slow client is given.
- `DOUBLE_POISON`: A word that makes a step raise.
- `DOUBLE_PAIRS`: What it translates, such as `en-fr,fr-en`.
"""

import os
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path

from app.connection import protocol
from app.connection.listening import Listener
from app.connection.server import serve
from app.connection.supervisor import supervise
from app.lifecycle.processes import ServiceProcess
from app.main import create_app
from app.settings import Settings
from app.telemetry.logs import set_up_logs
from model.cli import main as dragoman
from tests.app.double import DoubleBackend


def rest(seconds: float, hurry: Path | None, gate: Path | None) -> None:
    """Take a step's time, and wait for the gate."""
    if hurry is None or not hurry.exists():
        time.sleep(seconds)
    while gate is not None and not gate.exists():
        time.sleep(0.005)


def run(settings: Settings, process: ServiceProcess | None = None, listener: Listener | None = None) -> None:
    """Serve, by itself or as one of several processes."""
    pairs = os.environ.get("DOUBLE_PAIRS", "en-fr,fr-en").split(",")
    directions = tuple((pair[:2], pair[3:]) for pair in pairs)
    backend = DoubleBackend(("tiny", directions), workers=settings.workers or 1)
    backend.seconds = float(os.environ.get("DOUBLE_SECONDS", "0"))
    hurry, gate = (
        Path(os.environ[name]) if name in os.environ else None for name in ("DOUBLE_HURRY", "DOUBLE_GATE")
    )
    backend.rest = lambda seconds: rest(seconds, hurry, gate)
    backend.poison = os.environ.get("DOUBLE_POISON")
    serve(create_app(settings, backend, process=process), settings, listener)


def main() -> None:
    protocol._MIN_RATE_SECONDS = float(os.environ.get("DOUBLE_PATIENCE", protocol._MIN_RATE_SECONDS))
    chosen = Settings(_env_file=None)
    set_up_logs(chosen.log_level)
    if chosen.processes == 1:
        run(chosen)
    else:
        sys.exit(supervise(chosen, chosen.processes, run))


def serve_forked(environment: dict[str, str], stderr: Connection, is_real: bool) -> None:
    """Run a double or `dragoman serve` in a fork, with this environment and standard error."""
    os.environ.clear()
    os.environ.update(environment)
    with stderr:
        os.dup2(stderr.fileno(), 2)
    if is_real:
        dragoman(["serve"])
    else:
        main()


if __name__ == "__main__":
    main()
