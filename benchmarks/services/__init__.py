"""Services over HTTP, each in a process: ours, FastAPI with CTranslate2, and ours with a null engine."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from types import TracebackType
from typing import Self

from model.decode_request import DecodeOptions

_ROOT = Path(__file__).parents[2]
_START_SECONDS, _ANSWER_SECONDS, _END_SECONDS = 120, 60, 30
_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, eq=False)
class ServiceSpec:
    """A service to start; `{port}` in its command stands for its port."""

    name: str
    command: Sequence[str]
    translates: bool = True


def dragoman_service(folder: Path, *, workers: int, precision: str, device: str = "cpu") -> ServiceSpec:
    """Ours, as users start it."""
    options = {
        "checkpoint": folder.resolve(),
        "port": "{port}",
        "workers": workers,
        "precision": precision,
        "device": device,
        "log-level": "error",
    }
    program = str(Path(sys.executable).with_name("dragoman"))
    command = [program, "serve", *(f"--{name}={value}" for name, value in options.items())]
    return ServiceSpec(f"dragoman, {_counted(workers)}", command)


def ctranslate2_service(
    folder: Path, *, workers: int, precision: str, search: DecodeOptions, device: str = "cpu"
) -> ServiceSpec:
    """FastAPI and CTranslate2 with a micro-batcher, from an exported folder."""
    options = {
        "folder": str(folder.resolve()),
        "workers": workers,
        "compute_type": precision,
        "device": device,
        "beam_size": search.beam_size if search.strategy == "beam" else 1,
        "length_penalty": search.length_penalty,
    }
    name = f"fastapi + ctranslate2, {_counted(workers)}"
    return ServiceSpec(name, _module("fastapi_ctranslate2", json.dumps(options)))


def echo_service() -> ServiceSpec:
    """FastAPI alone, which answers with the text it got."""
    return ServiceSpec("fastapi echo", _module("fastapi_ctranslate2"), translates=False)


def null_service(checkpoint: Path) -> ServiceSpec:
    """Ours, with an engine that answers at once."""
    return ServiceSpec(
        "dragoman, nothing decoded", _module("null_backend", str(checkpoint)), translates=False
    )


def _module(name: str, *arguments: str) -> Sequence[str]:
    return (sys.executable, "-m", f"benchmarks.services.{name}", "{port}", *arguments)


def _counted(workers: int) -> str:
    return f"{workers} worker{'s' if workers > 1 else ''}"


class Service:
    """Starts a service and waits until `/readyz` answers 200; use it in a `with` block.

    Raises:
        RuntimeError: If it ends or is not ready in time; its own messages are on standard error.
    """

    def __init__(self, spec: ServiceSpec) -> None:
        self.spec, self._reserved = spec, _reserved_port()
        self.port: int = self._reserved.getsockname()[1]
        start = time.perf_counter()
        self.process = subprocess.Popen(
            [part.replace("{port}", str(self.port)) for part in spec.command],
            cwd=_ROOT,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            stdout=subprocess.DEVNULL,
        )
        try:
            while self.ask("/readyz") != 200:
                if self.process.poll() is not None or time.perf_counter() - start > _START_SECONDS:
                    raise RuntimeError(f"{spec.name} did not become ready")
                time.sleep(0.01)
        except BaseException:
            self.__exit__(None, None, None)
            raise

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    def processor_seconds(self) -> float:
        """Seconds of computing so far; on Linux only."""
        stat = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="utf-8")
        fields = stat.rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS_A_SECOND

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        finally:
            self._reserved.close()

    def ask(self, path: str, body: str | None = None) -> int:
        """Ask on a new connection, by POST if there is a JSON body.

        Returns:
            The HTTP status; 0 if the connection ended without an answer.
        """
        connection = HTTPConnection("127.0.0.1", self.port, timeout=_ANSWER_SECONDS)
        method = "GET" if body is None else "POST"
        try:
            connection.request(method, path, body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            response.read()
            return response.status
        except OSError:
            return 0
        finally:
            connection.close()


def _reserved_port() -> socket.socket:
    """A bound port that no other process is given; a server may still listen there by SO_REUSEADDR."""
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    return held
