"""How near to the machine's limit a decoder step comes: ours and others', on one core.

python -m benchmarks.roofline --shape base --output runs/bench
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from benchmarks.engines import ENGINES, EngineSpec, Ids, choose
from benchmarks.engines.process import EngineProcess
from benchmarks.engines.weights import SHAPES, Weights, random_checkpoint
from benchmarks.harness.options import Timing, benchmark, deliver, several, timing_options
from benchmarks.harness.report import Report, Row
from benchmarks.harness.texts import random_sentences
from benchmarks.harness.timing import median, take_turns, timed
from model.config import TransformerConfig
from model.decode_request import DecodeOptions
from model.training.optimisation.measurements import SIDES, measured_peak

_SHORT, _LONG = 4, 28
_SENTENCES = 32
_BYTES = {"float32": 4, "bfloat16": 2, "int8": 1}
_FIELD = ("dragoman-native-float32", "dragoman-native-bfloat16", "dragoman-native-int8", "ctranslate2-int8")
_TRIES = 15
_BYTES_A_TRY = 2**26
_METHOD = (
    f"A step is the difference between greedy translations of {_LONG} and of {_SHORT} tokens, divided by "
    f"{_LONG - _SHORT}. The roofline is the slower of two: reading the decoder's weights once, at the rate "
    "measured for so many bytes, and multiplying the weights with every row, at the rate of a large product; "
    "attention, norms and selection are not in it."
)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one thread can do at most, the best of many tries."""

    # Multiplications and additions a second of a matrix product, by precision
    operations: Mapping[str, float]
    # Bytes a second when that many bytes are read again and again; few stay in the caches
    bandwidth: Mapping[int, float]

    def rows(self) -> list[Row]:
        """Rows of the table."""
        products = [(f"matrix product, {name}", n, "G operations/s") for name, n in self.operations.items()]
        reads = [(f"reading {n / 1e6:,.1f} MB repeatedly", r, "GB/s") for n, r in self.bandwidth.items()]
        return [{"what": what, "at most": f"{n / 1e9:,.0f} {unit}"} for what, n, unit in products + reads]


@dataclass(frozen=True, kw_only=True)
class StepCost:
    """Bytes that a step must read once, and operations of all its rows."""

    read_bytes: int
    operations: int

    def least_seconds(self, limits: Limits, precision: str) -> float:
        """The slower of reading and computing, which may overlap."""
        reading = self.read_bytes / limits.bandwidth[self.read_bytes]
        return max(reading, self.operations / limits.operations[precision])


def step_cost(config: TransformerConfig, rows: int, precision: str) -> StepCost:
    """Cost of one more token in every row.

    A layer has four projections for attention to the target (two in a recurrent cell), two for the source
    (keys and values are projected once a sentence) and two or three of its feed-forward block; then comes the
    vocabulary. Keys and values stay in the caches mostly.

    Args:
        config: Shape of the network.
        rows: Hypotheses in the batch.
        precision: Precision of the weights.
    """
    dim = config.model_dim
    to_target = 2 * dim if config.decoder_memory == "ssru" else 4 * config.heads_dim
    layer = dim * (to_target + 2 * config.heads_dim + (3 if config.gated_ffn else 2) * config.ffn_dim)
    weights = config.num_decoder_layers * layer + dim * config.target_vocab_size
    return StepCost(read_bytes=weights * _BYTES[precision], operations=2 * weights * rows)


def measure_limits(amounts: Sequence[int], precisions: Sequence[str]) -> Limits:
    """Measure this machine, on one thread, in seconds; `amounts` are bytes whose reading is measured."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return Limits(
            operations={each: _product_rate(each) for each in dict.fromkeys(precisions)},
            bandwidth={amount: _read_rate(amount) for amount in sorted(set(amounts))},
        )
    finally:
        torch.set_num_threads(threads)


def _product_rate(precision: str) -> float:
    """Rate of large square matrices; int8 products are summed in int32."""
    if precision != "int8":
        return measured_peak(torch.device("cpu"), precision)
    side = SIDES["cpu"]
    one, other = (torch.randint(-100, 100, (side, side), dtype=torch.int8) for _ in range(2))
    return 2 * side**3 / _least_seconds(lambda: torch._int_mm(one, other))


def _read_rate(amount: int) -> float:
    """Rate of searching for the greatest of that many bytes of float32."""
    numbers = torch.randn(max(1, amount // 4))
    repeats = max(1, _BYTES_A_TRY // amount)
    return numbers.nbytes * repeats / _least_seconds(lambda: [numbers.amax() for _ in range(repeats)])


def _least_seconds(run: Callable[[], object]) -> float:
    run()
    return min(timed(run) for _ in range(_TRIES))


@dataclass(frozen=True, kw_only=True)
class Step:
    """One engine's step, in seconds of each round, and the least that the machine needs for it."""

    network: str
    batch_size: int
    engine: str
    seconds: Sequence[float]
    least_seconds: float

    def row(self) -> Row:
        """A row of the table."""
        step = median(self.seconds)
        return {
            "network": self.network,
            "batch": str(self.batch_size),
            "engine": self.engine,
            "ms a step": f"{step * 1e3:.3f}",
            "roofline, ms": f"{self.least_seconds * 1e3:.3f}",
            "step ÷ roofline": f"{step / self.least_seconds:.2f}",
            "share of the limit": f"{self.least_seconds / step:.0%}",
            "tokens/s": f"{self.batch_size / step:,.0f}",
        }


def measure(
    shape: str,
    runners: Sequence[EngineProcess],
    batch_size: int,
    least_seconds: Callable[[EngineSpec], float],
    timing: Timing,
) -> list[Step]:
    """Steps of all engines, which take turns, and the least that the machine needs for each."""
    batches = max(1, _SENTENCES // batch_size)
    sources = random_sentences(SHAPES[shape], batches * batch_size, _LONG, timing.seed)
    runs = {
        (each.spec.name, length): partial(_decode, each, sources, batch_size, length)
        for each, length in product(runners, (_SHORT, _LONG))
    }
    for run in runs.values():
        run(0)  # warms up
    timings = take_turns(runs, timing.rounds)
    return [
        Step(
            network=shape,
            batch_size=batch_size,
            engine=spec.name,
            seconds=[
                (many - few) / (batches * (_LONG - _SHORT))
                for few, many in zip(timings[spec.name, _SHORT], timings[spec.name, _LONG], strict=True)
            ],
            least_seconds=least_seconds(spec),
        )
        for spec in (each.spec for each in runners)
    ]


def _decode(
    runner: EngineProcess, sources: Sequence[Ids], batch_size: int, length: int, _round: int
) -> float:
    return runner.decode(sources, DecodeOptions(strategy="greedy", max_length=length), batch_size)[1]


@benchmark
@several("shape", "shapes", tuple(SHAPES), ["small"], "Random networks.")
@several("engine", "engines", tuple(ENGINES), [], "Engines; by default ours and CTranslate2's fastest.")
@several("batch-size", "batch_sizes", None, [1, 8, 32], "Rows of a step.")
@timing_options
def main(shapes: Sequence[str], engines: Sequence[str], batch_sizes: Sequence[int], timing: Timing) -> None:
    """Measure the machine and a decoder step, and compare."""
    settings = {"batch_sizes": batch_sizes, **vars(timing)}
    report = Report(timing.name or "roofline", settings, [1])
    report.notes += [timing.note(), _METHOD]
    field = choose(engines or _FIELD, "cpu")
    precisions = [spec.precision for spec in field]
    costs = {
        (shape, size, precision): step_cost(SHAPES[shape], size, precision)
        for shape, size, precision in product(shapes, batch_sizes, precisions)
    }
    limits = measure_limits([cost.read_bytes for cost in costs.values()], precisions)
    steps: list[Step] = []
    for shape in shapes:
        with TemporaryDirectory() as scratch, ExitStack() as running:
            folder = random_checkpoint(Path(scratch) / shape, shape, timing.seed)
            runners = Weights(folder, Path(scratch) / "exported").start(field, 1, "cpu", running)
            for size in batch_sizes:

                def least(spec: EngineSpec, shape: str = shape, size: int = size) -> float:
                    return costs[shape, size, spec.precision].least_seconds(limits, spec.precision)

                steps += measure(shape, runners, size, least, timing)
    report.add("One decoder step, one thread", [step.row() for step in steps], "step", steps)
    report.add("Limits of the machine, one thread", limits.rows(), "limits", [limits])
    deliver(report, timing.output)


if __name__ == "__main__":
    main()
