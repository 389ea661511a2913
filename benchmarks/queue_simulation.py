"""Simulates the queue of one or many services, and compares one with a service that runs.

python -m benchmarks.queue_simulation --checkpoint checkpoints        # measure a service, simulate the same
python -m benchmarks.queue_simulation --rate 10000 --replicas 20      # predict

A worker decodes a batch step by step: a step of n rows takes `a + b n`, sentences join and leave between two
steps, and a request beyond the limit is refused. `a` and `b` follow from two measured figures, the time of a
sentence alone and the capacity with 64 connections. Latencies, refusals and saturation are predicted.
"""

import heapq
import json
import random
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import click

from benchmarks.harness.options import FOLDER, benchmark, counted, deliver
from benchmarks.harness.report import Report
from benchmarks.harness.timing import percentile
from benchmarks.load.generator import ClosedLoop, OpenLoop, message, run_closed_loop, run_open_loop
from benchmarks.load.texts import sentence_requests
from benchmarks.services import Service, dragoman_service
from model.cli.options import only_checkpoint

_SHARES = (0.1, 0.25, 0.5, 0.7, 0.8, 0.9, 1.0, 1.2, 1.5, 2.0)
_CONNECTIONS = 64
# Steps of a sentence: about a token for four characters, and the end.
_STEPS = [len(json.loads(body)["q"]) // 4 + 1 for body in sentence_requests()]
_MEAN_STEPS = sum(_STEPS) / len(_STEPS)


@dataclass(frozen=True, kw_only=True)
class Replica:
    """The speed of one service."""

    alone: float  # seconds of a sentence that has a service to itself
    capacity: float  # sentences a second with 64 connections
    workers: int = 2  # decoding threads
    rows: int = 85  # sentences that a worker decodes together
    most: int = 819  # requests in progress, of one client: four fifths of DRAGOMAN_MAX_REQUESTS

    def step_cost(self) -> tuple[float, float]:
        """Returns `a` and `b` in seconds."""
        rows, alone = _CONNECTIONS / self.workers, self.alone / _MEAN_STEPS
        slope = max((_CONNECTIONS / (_MEAN_STEPS * self.capacity) - alone) / (rows - 1), 0.0)
        return max(alone - slope, 0.0), slope


@dataclass
class Outcome:
    """The clients' view: seconds until each good answer, those within the stream's time, and refusals."""

    seconds: float
    latencies: list[float] = field(default_factory=list)
    in_time: int = 0
    refused: int = 0

    def cells(self) -> dict[str, str]:
        """Returns cells of a table's row."""
        latencies, refused = sorted(self.latencies), self.refused
        return {
            "good answers a second": f"{self.in_time / self.seconds:,.0f}",
            "refused": f"{refused / max(refused + len(latencies), 1):.1%}",
            **{f"p{each}, ms": f"{percentile(latencies, each / 100) * 1000:,.0f}" for each in (50, 95, 99)},
        }


def simulate(replica: Replica, rate: float, seconds: float, replicas: int = 1, seed: int = 1) -> Outcome:
    """Returns what a Poisson stream sees; each request goes to the shorter queue of two random replicas."""
    draw, outcome, (a, b) = random.Random(seed), Outcome(seconds), replica.step_cost()
    waiting: list[deque[list[float]]] = [deque() for _ in range(replicas)]
    batches: list[list[list[list[float]]]] = [[[] for _ in range(replica.workers)] for _ in range(replicas)]
    present = [0] * replicas
    # Time, replica and worker of each end of a step; a worker of -1 is an arrival.
    events: list[tuple[float, int, int]] = [(draw.expovariate(rate), 0, -1)]
    while events:
        now, which, worker = heapq.heappop(events)
        if worker >= 0:
            batch = [[arrived, steps - 1] for arrived, steps in batches[which][worker]]
            done = [now - arrived for arrived, steps in batch if not steps]
            batches[which][worker] = [row for row in batch if row[1]]
            outcome.latencies += done
            outcome.in_time += len(done) * (now <= seconds)
            present[which] -= len(done)
        elif now < seconds:
            heapq.heappush(events, (now + draw.expovariate(rate), 0, -1))
            which = min(draw.choices(range(replicas), k=2), key=present.__getitem__)
            if present[which] >= replica.most:
                outcome.refused += 1
                continue
            present[which] += 1
            waiting[which].append([now, draw.choice(_STEPS)])
            idle = (each for each, batch in enumerate(batches[which]) if not batch)
            if (worker := next(idle, -1)) < 0:
                continue
        else:
            continue
        batch = batches[which][worker]
        while waiting[which] and len(batch) < replica.rows:
            batch.append(waiting[which].popleft())
        if batch:
            heapq.heappush(events, (now + a + b * len(batch), which, worker))
    return outcome


def measure(folder: Path, seconds: float) -> tuple[Replica, dict[float, Outcome]]:
    """Returns what a service of two workers can do, and what streams of several rates see of it."""
    bodies, outcomes = sentence_requests(), {}
    with Service(dragoman_service(folder, workers=2, precision="auto")) as service:
        job = ClosedLoop(port=service.port, bodies=bodies, concurrency=1, seconds=seconds)
        alone = run_closed_loop(job)
        before = service.processor_seconds()
        busy = run_closed_loop(replace(job, concurrency=_CONNECTIONS))
        spent = (service.processor_seconds() - before) / len(busy.samples)
        click.echo(f"Processor time of an answer: {spent * 1000:.2f} ms", err=True)
        median = percentile(sorted(each for _, each, _ in alone.samples), 0.5)
        replica = Replica(alone=median, capacity=len(busy.samples) / busy.seconds)
        requests = [message("127.0.0.1", body, {}) for body in bodies]
        for rate in (share * replica.capacity for share in _SHARES):
            stream = OpenLoop(
                host="127.0.0.1", port=service.port, requests=requests, rate=rate, seconds=seconds
            )
            seen = run_open_loop(stream)
            good = [(each.intended, each.ended) for each in seen.samples if each.status == 200]
            in_time = sum(ended <= seconds for _, ended in good)
            latencies = [ended - intended for intended, ended in good]
            outcomes[rate] = Outcome(seconds, latencies, in_time, len(seen.samples) - len(good))
    return replica, outcomes


@benchmark
@click.option("--checkpoint", type=click.Path(exists=True, path_type=Path), help="Measure a service of it.")
@click.option("--alone-ms", default=5.0, help="Of a sentence alone, without --checkpoint.")
@click.option("--capacity", default=500.0, help="Of a service with 64 connections, without --checkpoint.")
@click.option("--rate", "rates", multiple=True, type=float, help="Requests a second, without --checkpoint.")
@counted("replicas", 1, "Services, without --checkpoint.")
@click.option("--seconds", default=6.0, help="How long requests arrive.")
@click.option("--output", type=FOLDER, help="Folder for Markdown and JSON.")
def main(
    checkpoint: Path | None,
    alone_ms: float,
    capacity: float,
    rates: tuple[float, ...],
    replicas: int,
    seconds: float,
    output: Path | None,
) -> None:
    """Simulate a queue, next to a measurement if a checkpoint is given."""
    report = Report("queue", {"seconds": seconds, "replicas": replicas}, [2])
    replica = Replica(alone=alone_ms / 1000, capacity=capacity)
    measured: Mapping[float, Outcome | None] = dict.fromkeys(rates)
    if checkpoint is not None:
        replica, measured = measure(only_checkpoint(checkpoint), seconds)
    report.notes.append(
        f"A sentence alone takes {replica.alone * 1000:.2f} ms; capacity of a service with 64 connections "
        f"{replica.capacity:.0f} a second; services: {replicas}, with two workers each."
    )
    rows = []
    for rate, seen in measured.items():
        both = {"measured": seen, "simulated": simulate(replica, rate, seconds, replicas)}
        rows += [{"offered/s": f"{rate:,.0f}", "": of, **each.cells()} for of, each in both.items() if each]
    report.add("Against the rate of arrival", rows)
    deliver(report, output)


if __name__ == "__main__":
    main()
