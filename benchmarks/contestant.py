"""A process that holds one engine and decodes what it is told to; see benchmarks.process for the other end.

Each engine alone in a process has threads, memory and a start of its own, and disturbs no other.

    first line   {"engine": NAME, "folder": PATH, "threads": N}       answered by {"resident": bytes}
    then         {"sources": [[…]], "options": {…}, "batch_size": N}  by {"wall", "processor", "ids"}
    or           {}                                                   by {"resident", "peak"}: bytes
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TextIO

from benchmarks.engine import Engine, Translations
from benchmarks.lineup import CONTESTANTS
from benchmarks.machine import memory_of, pin
from benchmarks.rounds import timed
from model.request import DecodeOptions

_FIELDS = {"resident": "VmRSS", "peak": "VmHWM"}


def main() -> None:
    """Serve standard input until it ends."""
    answers = _own_output()
    order = json.loads(sys.stdin.readline())
    pin(order["threads"])
    contestant = CONTESTANTS[order["engine"]]
    engine = contestant.load(Path(order["folder"]), contestant.precision, order["threads"])
    _answer(answers, _memory())
    for line in sys.stdin:
        order = json.loads(line)
        _answer(answers, _decode(engine, order) if order else _memory())


def _own_output() -> TextIO:
    """Standard output for the answers alone: what libraries print there goes to standard error."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return answers


def _answer(answers: TextIO, content: Mapping[str, object]) -> None:
    answers.write(json.dumps(content) + "\n")
    answers.flush()


def _decode(engine: Engine, order: Mapping[str, object]) -> Mapping[str, object]:
    sources, options, batch_size = order["sources"], order["options"], order["batch_size"]
    if not (isinstance(sources, Sequence) and isinstance(options, Mapping) and isinstance(batch_size, int)):
        raise TypeError("a job has sources, options and a batch size")
    decoding = DecodeOptions.from_dict(options)
    translations: Translations = []
    duration = timed(lambda: translations.extend(engine.decode(sources, decoding, batch_size)))
    return {"wall": duration.wall, "processor": duration.processor, "ids": translations}


def _memory() -> Mapping[str, int]:
    """Memory of this process in bytes: what it has now, and the most it had."""
    return {name: memory_of("self", field) for name, field in _FIELDS.items()}


if __name__ == "__main__":
    main()
