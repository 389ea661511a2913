"""Services as processes: started, watched until they are ready, measured, ended."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from types import TracebackType
from typing import Self

from benchmarks.engine import beams
from benchmarks.machine import memory_of
from model.request import DecodeOptions

_ROOT = Path(__file__).parents[1]
_START_SECONDS, _END_SECONDS = 120, 30
_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How to start a service.

    Attributes:
        name: What to call it.
        command: With `{port}` for its port.
        environment: Beside this process's own, with `{port}` too.
        path: Where it takes translations.
        translates: Whether its answers are translations.
    """

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    path: str = "/translate"
    translates: bool = True


def dragoman(folder: Path, *, workers: int, precision: str) -> Recipe:
    """Ours, as users start it."""
    return Recipe(
        name=f"dragoman, {_counted(workers)}",
        command=(str(Path(sys.executable).with_name("dragoman")), "serve"),
        environment={
            "DRAGOMAN_CHECKPOINT": str(folder.resolve()),
            "DRAGOMAN_PORT": "{port}",
            "DRAGOMAN_WORKERS": str(workers),
            "DRAGOMAN_PRECISION": precision,
            "DRAGOMAN_LOG_LEVEL": "error",
            "OMP_NUM_THREADS": "1",
        },
    )


def fastapi_ctranslate2(folder: Path, *, workers: int, precision: str, search: DecodeOptions) -> Recipe:
    """FastAPI and CTranslate2 with a micro-batcher, from an exported folder."""
    options = {
        "model": folder.resolve(),
        "workers": workers,
        "compute-type": precision,
        "beam-size": beams(search),
        "length-penalty": search.length_penalty,
    }
    return Recipe(
        name=f"fastapi + ctranslate2, {_counted(workers)}",
        command=_module("fastapi_ctranslate2", *(f"--{name}={value}" for name, value in options.items())),
        environment={"OMP_NUM_THREADS": "1"},
    )


def echo() -> Recipe:
    """FastAPI alone."""
    return Recipe(name="fastapi echo", command=_module("echo"), environment={}, translates=False)


def _module(name: str, *options: str) -> Sequence[str]:
    return (sys.executable, "-m", f"benchmarks.peers.{name}", "--port={port}", *options)


def _counted(workers: int) -> str:
    return f"{workers} worker{'s' if workers > 1 else ''}"


class Server:
    """A running service; use it in a `with` block.

    Attributes:
        recipe: What was started.
        port: Where it listens.
        seconds_to_ready: From its start until `/readyz` said yes.
        resident: Bytes of memory then.
    """

    def __init__(self, recipe: Recipe) -> None:
        """Start it and wait until it is ready.

        Raises:
            RuntimeError: If it ends or is not ready in time; its own words are on standard error.
        """
        self.recipe, self._reserved = recipe, _reserved_port()
        self.port: int = self._reserved.getsockname()[1]
        start = time.perf_counter()
        self._process = subprocess.Popen(
            [part.format(port=self.port) for part in recipe.command],
            cwd=_ROOT,
            env=os.environ | {k: value.format(port=self.port) for k, value in recipe.environment.items()},
            stdout=subprocess.DEVNULL,
        )
        try:
            while not self._is_ready():
                if self._process.poll() is not None or time.perf_counter() - start > _START_SECONDS:
                    raise RuntimeError(f"{recipe.name} did not become ready")
                time.sleep(0.01)
        except BaseException:
            self._process.kill()
            self._process.wait()
            self._reserved.close()
            raise
        self.seconds_to_ready = time.perf_counter() - start
        self.resident = self.memory("VmRSS")

    def memory(self, field: str) -> int:
        """Bytes of its process; see memory_of."""
        return memory_of(self._process.pid, field)

    def processor_seconds(self) -> float:
        """Seconds of computing so far; 0 on other systems than Linux."""
        stat = Path(f"/proc/{self._process.pid}/stat")
        if not stat.exists():
            return 0.0
        fields = stat.read_text(encoding="utf-8").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS_A_SECOND

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        finally:
            self._reserved.close()

    def _is_ready(self) -> bool:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()


def _reserved_port() -> socket.socket:
    """Holds a port that nobody else is given, but on which a server may listen: servers set SO_REUSEADDR."""
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    return held
