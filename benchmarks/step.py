"""How near to the machine's limit a decoder step comes: ours and others', on one core.

python -m benchmarks.step --shape base --output runs/bench
"""

import statistics
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from benchmarks.checkpoints import random_checkpoint
from benchmarks.floor import floor_seconds, step_cost
from benchmarks.limits import Limits, measure_limits
from benchmarks.lineup import CONTESTANTS, Contestant
from benchmarks.machine import describe_machine, load_average
from benchmarks.options import Benchmark, Timing, entrants, numbers, several, timing_options
from benchmarks.process import EngineProcess
from benchmarks.race import Runner
from benchmarks.report import Report, Table
from benchmarks.rounds import Clock, Duration, take_turns
from benchmarks.shapes import SHAPES
from benchmarks.stable import Stable
from benchmarks.work import random_sentences
from model.request import DecodeOptions

_SHORT, _LONG = 4, 28
_SENTENCES = 32
_COLUMNS = ("network", "batch", "engine", "ms a step", "floor, ms", "step ÷ floor", "share of the limit")
_FIELD = ("dragoman-native-float32", "dragoman-native-bfloat16", "dragoman-native-int8", "ctranslate2-int8")
_METHOD = (
    f"A step is the difference between greedy translations of {_LONG} and of {_SHORT} tokens, divided by "
    f"{_LONG - _SHORT}. The floor is the slower of two: reading the decoder's weights once, at the rate "
    "measured for so many bytes, and multiplying them with every row, at the rate of a large product; "
    "attention, norms and selection are not in it."
)


@dataclass(frozen=True, kw_only=True)
class Step:
    """One engine's step beside its floor.

    Attributes:
        network: Name of the shape.
        batch_size: Rows.
        contestant: Whose.
        seconds: Of a step, each round.
        floor: Seconds that the machine needs at least, in this precision.
    """

    network: str
    batch_size: int
    contestant: Contestant
    seconds: Sequence[float]
    floor: float

    def cells(self) -> tuple[str, ...]:
        """A row of the table."""
        median = statistics.median(self.seconds)
        return (
            self.network,
            str(self.batch_size),
            self.contestant.name,
            f"{median * 1e3:.3f}",
            f"{self.floor * 1e3:.3f}",
            f"{median / self.floor:.2f}",
            f"{self.floor / median:.0%}",
        )

    def to_dict(self) -> dict[str, object]:
        """Everything measured, for JSON."""
        return {
            "kind": "step",
            "network": self.network,
            "batch_size": self.batch_size,
            "engine": self.contestant.engine,
            "precision": self.contestant.precision,
            "seconds": list(self.seconds),
            "floor_seconds": self.floor,
        }


@click.command(cls=Benchmark)
@several("shape", "shapes", tuple(SHAPES), ["small"], "Random networks.")
@several("engine", "engines", tuple(CONTESTANTS), _FIELD, "Who takes part.")
@numbers("batch-size", "batch_sizes", [1, 8, 32], "Rows of a step.")
@timing_options
def main(shapes: Sequence[str], engines: Sequence[str], batch_sizes: Sequence[int], timing: Timing) -> None:
    """Measure the machine and a decoder step, and compare."""
    load_before = load_average()
    field = entrants(engines)
    limits = measure_limits(
        [step_cost(SHAPES[shape], 1, each.precision).weight_bytes for shape in shapes for each in field]
    )
    steps = [step for shape in shapes for step in _measure_shape(shape, field, batch_sizes, limits, timing)]
    report = Report(
        name=timing.name or "step",
        machine=describe_machine([1]),
        loads=(load_before, load_average()),
        settings={"batch_sizes": batch_sizes, "timing": timing},
        notes=[timing.note(), _METHOD],
        tables=[
            Table(title="One decoder step, one thread", columns=_COLUMNS, rows=[s.cells() for s in steps]),
            _limits_table(limits),
        ],
        results=[*(step.to_dict() for step in steps), {"kind": "limits", **asdict(limits)}],
    )
    timing.deliver(report)


def _measure_shape(
    shape: str, field: Sequence[Contestant], batch_sizes: Sequence[int], limits: Limits, timing: Timing
) -> list[Step]:
    with TemporaryDirectory() as scratch, ExitStack() as running:
        folder = random_checkpoint(Path(scratch) / shape, shape, timing.seed)
        stable = Stable(folder, Path(scratch) / "exported")
        processes = [
            running.enter_context(EngineProcess(each, weights, threads=1))
            for each in field
            if (weights := stable.folder_of(each)) is not None
        ]
        return [step for size in batch_sizes for step in _measure(shape, processes, size, limits, timing)]


def _measure(
    shape: str, runners: Sequence[Runner], batch_size: int, limits: Limits, timing: Timing
) -> list[Step]:
    config = SHAPES[shape]
    batches = max(1, _SENTENCES // batch_size)
    sources = random_sentences(config, batches * batch_size, _LONG, timing.seed)

    def decoding(runner: Runner, length: int) -> Callable[[int], Duration]:
        options = DecodeOptions(strategy="greedy", max_length=length)
        return lambda _round: runner.decode(sources, options, batch_size)[1]

    runs = {
        (each.contestant.name, length): decoding(each, length)
        for each in runners
        for length in (_SHORT, _LONG)
    }
    for run in runs.values():
        run(0)  # warms up
    timings = take_turns(runs, timing.rounds)
    return [
        Step(
            network=shape,
            batch_size=batch_size,
            contestant=each.contestant,
            seconds=_step_seconds(
                timings[each.contestant.name, _SHORT],
                timings[each.contestant.name, _LONG],
                batches,
                timing.clock,
            ),
            floor=floor_seconds(
                step_cost(config, batch_size, each.contestant.precision), limits, each.contestant.precision
            ),
        )
        for each in runners
    ]


def _step_seconds(
    short: Sequence[Duration], long: Sequence[Duration], batches: int, clock: Clock
) -> list[float]:
    steps = batches * (_LONG - _SHORT)
    return [(many.by(clock) - few.by(clock)) / steps for few, many in zip(short, long, strict=True)]


def _limits_table(limits: Limits) -> Table:
    rates = [
        (f"matrix product, {precision}", f"{rate / 1e9:,.0f} G operations/s")
        for precision, rate in limits.operations.items()
    ]
    reads = [
        (f"reading {amount / 1e6:,.1f} MB again and again", f"{rate / 1e9:,.0f} GB/s")
        for amount, rate in limits.bandwidth.items()
    ]
    return Table(
        title="Limits of the machine, one thread", columns=("what", "at most"), rows=[*rates, *reads]
    )


if __name__ == "__main__":
    main()
