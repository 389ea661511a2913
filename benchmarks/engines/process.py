"""An engine in a process of its own, so that its threads and memory disturb no other engine.

The process reads lines of JSON and answers each with a line:

    first line   {"engine": NAME, "folder": PATH, "threads": N, "device": D}    {}, once the engine is ready
    then         {"sources": [[…]], "options": {…}, "batch_size": N}            {"seconds": …, "ids": [[…]]}
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks.engines import ENGINES, Engine, EngineSpec, Ids, Translations
from benchmarks.harness.timing import pin
from model.decode_request import DecodeOptions

_ROOT = Path(__file__).parents[2]


class EngineProcess:
    """Starts an engine and waits until it is ready; use it in a `with` block.

    Raises:
        RuntimeError: If the engine ends before it is ready; its own error is on standard error.
    """

    def __init__(self, spec: EngineSpec, folder: Path, threads: int, device: str = "cpu") -> None:
        self.spec = spec
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.engines.process"],
            cwd=_ROOT,
            env={**os.environ, "OMP_NUM_THREADS": str(1 if spec.is_ours else threads)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        folder = folder.resolve()
        self._ask({"engine": spec.name, "folder": str(folder), "threads": threads, "device": device})

    def decode(
        self, sources: Sequence[Ids], options: DecodeOptions, batch_size: int
    ) -> tuple[Translations, float]:
        """Translations of the sources, and the seconds that they took by the engine's own clock."""
        answer = self._ask({"sources": sources, "options": options.to_dict(), "batch_size": batch_size})
        return [tuple(ids) for ids in answer["ids"]], answer["seconds"]

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
        place = order["device"], order["threads"]
        engine = ENGINES[order["engine"]].load(Path(order["folder"]), *reversed(place))
        answers.write("{}\n")
        for line in sys.stdin:
            answers.write(json.dumps(_decode(engine, json.loads(line), *place)) + "\n")


def _decode(engine: Engine, order: Mapping[str, Any], device: str, threads: int) -> Mapping[str, object]:
    """On a CPU, seconds are CPU time per thread, which other processes of the machine influence least."""
    options = DecodeOptions.from_dict(order["options"])
    clock, share = (time.process_time, threads) if device == "cpu" else (time.perf_counter, 1)
    start = clock()
    ids = engine.decode(order["sources"], options, order["batch_size"])
    return {"seconds": (clock() - start) / share, "ids": ids}


if __name__ == "__main__":
    main()
