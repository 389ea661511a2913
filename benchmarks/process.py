"""An engine in a process of its own, as its owner sees it."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks.engine import Ids, Translations
from benchmarks.lineup import Contestant
from benchmarks.rounds import Duration
from model.request import DecodeOptions

_ROOT = Path(__file__).parents[1]


@dataclass(frozen=True, kw_only=True)
class Footprint:
    """What an engine costs beside time.

    Attributes:
        seconds_to_ready: From the start of its process until it can decode.
        resident: Bytes of memory once it is loaded.
        peak: The most bytes it had.
    """

    seconds_to_ready: float
    resident: int
    peak: int


class EngineProcess:
    """Starts an engine and waits until it is ready; use it in a `with` block."""

    def __init__(self, contestant: Contestant, folder: Path, threads: int) -> None:
        """Start.

        Raises:
            RuntimeError: If the engine ends before it is ready; its own error is on standard error.
        """
        self.contestant = contestant
        start = time.perf_counter()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.contestant"],
            cwd=_ROOT,
            env={**os.environ, "OMP_NUM_THREADS": str(threads if contestant.framework else 1)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        order = {"engine": contestant.name, "folder": str(folder.resolve()), "threads": threads}
        self._loaded = self._ask(order)
        self._seconds_to_ready = time.perf_counter() - start

    def decode(
        self, sources: Sequence[Ids], options: DecodeOptions, batch_size: int
    ) -> tuple[Translations, Duration]:
        """Translations of the sources, and how long they took by the engine's own clocks."""
        answer = self._ask({"sources": sources, "options": options.to_dict(), "batch_size": batch_size})
        return [tuple(ids) for ids in answer["ids"]], Duration(answer["wall"], answer["processor"])

    def footprint(self) -> Footprint:
        """Start and memory, the peak so far."""
        return Footprint(
            seconds_to_ready=self._seconds_to_ready,
            resident=self._loaded["resident"],
            peak=self._ask({})["peak"],
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()  # the end of its input is its end

    def _ask(self, order: Mapping[str, object]) -> dict[str, Any]:
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("the process was started without pipes")
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.contestant.name} ended with status {self._process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        return answer
