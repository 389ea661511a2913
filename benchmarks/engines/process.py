"""An engine in a process of its own, which has threads, memory and a start of its own and disturbs no other.

The process reads lines of JSON and answers each with a line:

    first line   {"engine": NAME, "folder": PATH, "threads": N, "device": D}    {"resident", "peak"} in bytes
    then         {"sources": [[…]], "options": {…}, "batch_size": N}           {"wall", "processor", "ids"}
    or           {}                                                            {"resident", "peak"} in bytes
"""

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

from benchmarks.engines import ENGINES, Engine, EngineSpec, Ids, Translations
from benchmarks.harness.machine import memory_of, pin
from benchmarks.harness.report import mebibytes
from benchmarks.harness.timing import Duration, timed
from model.request import DecodeOptions

_ROOT = Path(__file__).parents[2]
_FIELDS = {"resident": "VmRSS", "peak": "VmHWM"}


@dataclass(frozen=True, kw_only=True)
class Footprint:
    """What an engine costs besides time: seconds until it can decode, and bytes of memory."""

    seconds_to_ready: float
    resident: int
    peak: int

    def row(self) -> dict[str, str]:
        """Cells of a table."""
        return {
            "seconds to ready": f"{self.seconds_to_ready:.1f}",
            "MiB when ready": mebibytes(self.resident),
            "MiB at most": mebibytes(self.peak),
        }


class EngineProcess:
    """Starts an engine and waits until it is ready; use it in a `with` block.

    Raises:
        RuntimeError: If the engine ends before it is ready; its own error is on standard error.
    """

    def __init__(self, spec: EngineSpec, folder: Path, threads: int, device: str = "cpu") -> None:
        self.spec = spec
        start = time.perf_counter()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.engines.process"],
            cwd=_ROOT,
            env={**os.environ, "OMP_NUM_THREADS": str(1 if spec.is_ours else threads)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        order = {"engine": spec.name, "folder": str(folder.resolve()), "threads": threads, "device": device}
        self._resident = self._ask(order)["resident"]
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
            seconds_to_ready=self._seconds_to_ready, resident=self._resident, peak=self._ask({})["peak"]
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()  # the process ends when its input does

    def _ask(self, order: Mapping[str, object]) -> dict[str, Any]:
        assert self._process.stdin is not None, "the process is started with pipes"
        assert self._process.stdout is not None, "the process is started with pipes"
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.spec.name} ended with status {self._process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        return answer


def main() -> None:
    """Serve standard input until it ends."""
    # Standard output is for the answers alone: what libraries print there goes to standard error.
    with os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1) as answers:
        os.dup2(2, 1)
        order = json.loads(sys.stdin.readline())
        if order["device"] == "cpu":
            pin(order["threads"])
        spec = ENGINES[order["engine"]]
        engine = spec.load(Path(order["folder"]), order["threads"], order["device"])
        answers.write(json.dumps(_memory()) + "\n")
        for line in sys.stdin:
            order = json.loads(line)
            answers.write(json.dumps(_decode(engine, order) if order else _memory()) + "\n")


def _decode(engine: Engine, order: Mapping[str, Any]) -> Mapping[str, object]:
    options = DecodeOptions.from_dict(order["options"])
    ids: Translations = []
    took = timed(lambda: ids.extend(engine.decode(order["sources"], options, order["batch_size"])))
    return {"wall": took.wall, "processor": took.processor, "ids": ids}


def _memory() -> Mapping[str, int]:
    return {name: memory_of("self", field) for name, field in _FIELDS.items()}


if __name__ == "__main__":
    main()
