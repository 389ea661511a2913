"""One service under one load: what came back, how fast, and whether it was right."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.servers import Server
from benchmarks.texts import SHORT, SizedText

_ROOT = Path(__file__).parents[1]


@dataclass(frozen=True, kw_only=True)
class Load:
    """What a service is given to do.

    Attributes:
        name: Of the texts.
        texts: Sent in turn, over and over.
        concurrency: Connections, each with one request at a time.
        seconds: How long; None is until `most` requests are answered.
        warm_up_seconds: Before that, without being counted.
        source: Language of the texts.
        target: Language of the translations.
        decoding: Options of every request.
        most: Requests at most; None is no limit.
    """

    name: str
    texts: Sequence[SizedText]
    concurrency: int
    seconds: float | None
    warm_up_seconds: float
    source: str
    target: str
    decoding: Mapping[str, object]
    most: int | None = None

    def alone(self) -> "Load":
        """Each text once, with nothing beside it."""
        return replace(self, concurrency=1, seconds=None, warm_up_seconds=0.0, most=len(self.texts))

    def bodies(self) -> list[str]:
        """Requests, as JSON."""
        return [self._body(text) for text in self.texts]

    def _body(self, text: SizedText) -> str:
        body = {
            "q": text.text,
            "source": self.source,
            "target": self.target,
            "decoding": {**self.decoding, "max_length": text.max_length},
        }
        return json.dumps(body, ensure_ascii=False)


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """What one round of a load saw.

    Attributes:
        rate: Good answers a second.
        latencies: Seconds, sorted.
        short_latencies: Of short texts, sorted.
        failures: Answers with another status than 200.
        answers: Translations of each text, all different ones, by its number.
        processor: Seconds of the server's computing.
        processor_share: Seconds of the server's computing a second.
        generator_share: Seconds of the load generator's computing a second.
    """

    rate: float
    latencies: Sequence[float]
    short_latencies: Sequence[float]
    failures: int
    answers: Mapping[int, frozenset[str]]
    processor: float
    processor_share: float
    generator_share: float


def send(server: Server, load: Load) -> Traffic:
    """Put a service under load, from a process of its own.

    Raises:
        RuntimeError: If the generator fails, as it does when a connection is lost.
    """
    job = {
        "port": server.port,
        "path": server.recipe.path,
        "bodies": load.bodies(),
        "concurrency": load.concurrency,
        "seconds": load.seconds,
        "warm_up_seconds": load.warm_up_seconds,
        "most": load.most,
    }
    before = server.processor_seconds()
    outcome = subprocess.run(
        [sys.executable, "-m", "benchmarks.load"],
        cwd=_ROOT,
        input=json.dumps(job) + "\n",
        capture_output=True,
        text=True,
        check=False,
    )
    if outcome.returncode != 0:
        raise RuntimeError(f"no load on {server.recipe.name}: {outcome.stderr.strip().splitlines()[-1]}")
    computed = server.processor_seconds() - before
    report = json.loads(outcome.stdout)
    good = [(which, seconds) for which, seconds, status in report["samples"] if status == 200]
    elapsed = report["seconds"] + load.warm_up_seconds
    return Traffic(
        rate=len(good) / report["seconds"],
        latencies=sorted(seconds for _, seconds in good),
        short_latencies=sorted(seconds for which, seconds in good if load.texts[which].tokens <= SHORT),
        failures=len(report["samples"]) - len(good),
        answers={int(which): frozenset(map(_text, seen)) for which, seen in report["answers"].items()},
        processor=computed,
        processor_share=computed / elapsed,
        generator_share=report["processor"] / elapsed,
    )


def _text(body: str) -> str:
    """The translation; nothing of an answer that has none, as a server's plain error has not."""
    try:
        answer = json.loads(body)
    except ValueError:
        return ""
    translated = answer.get("translatedText") if isinstance(answer, dict) else None
    return translated if isinstance(translated, str) else ""
