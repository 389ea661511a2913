"""One service in a closed loop: what came back, how fast, and whether it was always the same."""

import dataclasses
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.harness.texts import SHORT, SizedText
from benchmarks.load.generator import Job
from benchmarks.services import Service

_ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, kw_only=True)
class Workload:
    """What a service is given to do."""

    name: str  # name of the texts
    texts: Sequence[SizedText]  # sent in turn, over and over
    concurrency: int  # connections, each with one request at a time
    seconds: float | None  # how long; None is until `most` requests are answered
    source: str  # language of the texts
    target: str  # language of the translations
    decoding: Mapping[str, object]  # options of every request
    warm_up_seconds: float = 0.0  # how long requests are sent before that without being counted
    most: int | None = None  # requests at most; None is no limit

    def alone(self) -> "Workload":
        """Each text once, one at a time."""
        return replace(self, concurrency=1, seconds=None, warm_up_seconds=0.0, most=len(self.texts))

    def bodies(self) -> list[str]:
        """Requests as JSON, each with the limit of its own text."""
        pair = {"source": self.source, "target": self.target}
        return [
            json.dumps(
                {"q": text.text, **pair, "decoding": {**self.decoding, "max_length": text.max_length}},
                ensure_ascii=False,
            )
            for text in self.texts
        ]


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """What one round of a workload saw."""

    rate: float  # good answers a second
    latencies: Sequence[float]  # seconds of good answers, sorted
    short_latencies: Sequence[float]  # those of short texts
    failures: int  # answers with another status than 200
    answers: Mapping[int, frozenset[str]]  # the different translations of each text, by its number
    processor_share: float  # seconds of the service's computing a second
    generator_share: float  # seconds of the generator's computing a second


def send(service: Service, load: Workload) -> Traffic:
    """Put a service under load, from a process of its own.

    Raises:
        RuntimeError: If the generator fails, as it does when a connection is lost.
    """
    job = Job(
        port=service.port,
        bodies=load.bodies(),
        concurrency=load.concurrency,
        seconds=load.seconds,
        warm_up_seconds=load.warm_up_seconds,
        most=load.most,
    )
    before = service.processor_seconds()
    outcome = subprocess.run(
        [sys.executable, "-m", "benchmarks.load.generator"],
        cwd=_ROOT,
        input=json.dumps(dataclasses.asdict(job)) + "\n",
        capture_output=True,
        text=True,
        check=False,
    )
    if outcome.returncode != 0:
        raise RuntimeError(f"no load on {service.spec.name}: {outcome.stderr.strip().splitlines()[-1]}")
    computed = service.processor_seconds() - before
    busy = json.loads(outcome.stdout)
    good = [(which, seconds) for which, seconds, status in busy["samples"] if status == 200]
    elapsed = busy["seconds"] + load.warm_up_seconds
    return Traffic(
        rate=len(good) / busy["seconds"],
        latencies=sorted(seconds for _, seconds in good),
        short_latencies=sorted(seconds for which, seconds in good if load.texts[which].tokens <= SHORT),
        failures=len(busy["samples"]) - len(good),
        answers={int(which): frozenset(map(_translation, seen)) for which, seen in busy["answers"].items()},
        processor_share=computed / elapsed,
        generator_share=busy["processor"] / elapsed,
    )


def _translation(body: str) -> str:
    """The translation in an answer; empty if there is none, as in a plain error."""
    try:
        answer = json.loads(body)
    except ValueError:
        return ""
    translated = answer.get("translatedText") if isinstance(answer, dict) else None
    return translated if isinstance(translated, str) else ""
