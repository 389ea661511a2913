"""How fast weights are updated: our training step beside that of Hugging Face, on the same batches.

python -m benchmarks.training_step --output runs/bench
"""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

import click

from benchmarks.engine import OURS
from benchmarks.machine import describe_machine, installed_version, load_average, pin
from benchmarks.options import Timing, counted, several, timing_options
from benchmarks.pairs import pair_batches
from benchmarks.report import Report, Table, rounded
from benchmarks.rounds import Clock, Duration, Ratio, speed_ratio, take_turns, timed
from benchmarks.shapes import SHAPES, untrained_network
from benchmarks.trainer import DragomanTrainer, Trainer
from model.training.data.batches import Batch
from model.training.processor import prepare_processor
from model.training.run_config import Precision
from model.transformer import Transformer

_COLUMNS = ("network", "trainer", "first loss, nats a token", "tokens/s", "comparison")
_WARM_UP = 2
_TOLERANCE = 1e-4
_SAME_WORK = (
    "Same initial weights, batches, dropout rates, AdamW, clipping and process settings for both; ours also "
    "smooths its labels. Tokens are source and target tokens, without padding."
)


@dataclass(frozen=True, kw_only=True)
class Finish:
    """How one trainer did.

    Attributes:
        network: Name of the shape.
        trainer: Whose.
        precision: Of its matrix products.
        loss: Cross entropy a target token of the first batch, in nats, before any update.
        is_wrong: Whether that is not our loss.
        tokens: Source and target tokens of each round.
        durations: Of each round.
        ratio: How many times as fast ours is in the same precision; None for ours.
    """

    network: str
    trainer: str
    precision: str
    loss: float
    is_wrong: bool
    tokens: Sequence[int]
    durations: Sequence[Duration]
    ratio: Ratio | None

    def cells(self, clock: Clock) -> tuple[str, ...]:
        """A row of the table; what computes another loss gets no figures."""
        rates = (n / each.by(clock) for n, each in zip(self.tokens, self.durations, strict=True))
        speed, comparison = rounded(statistics.median(rates)), ""
        if self.is_wrong:
            speed, comparison = "–", "another loss: not comparable"
        elif self.ratio is not None:
            comparison = f"{OURS} {self.precision} is {self.ratio} × this"
        return self.network, f"{self.trainer} {self.precision}", f"{self.loss:.4f}", speed, comparison


@click.command()
@several("shape", "shapes", tuple(SHAPES), ["small"], "Random networks.")
@several("precision", "precisions", ("float32", "bfloat16"), ["float32", "bfloat16"], "Of matrix products.")
@counted("max-tokens", 4096, "Of a batch, padding charged.")
@counted("threads", 1, "Numeric threads.")
@timing_options
def main(
    shapes: Sequence[str], precisions: Sequence[Precision], max_tokens: int, threads: int, timing: Timing
) -> None:
    """Race training steps over the same weights and batches; the first loss is compared first.

    Exit status 1 if a trainer's loss is not ours.
    """
    load_before = load_average()
    pin(threads)
    prepare_processor(threads)
    notes, finishes = [timing.note(), _SAME_WORK], []
    for shape in shapes:
        pairs = pair_batches(SHAPES[shape], _WARM_UP + timing.rounds, max_tokens, timing.seed)
        trainers = _line_up(untrained_network(SHAPES[shape], timing.seed), precisions)
        finishes += _hold(shape, trainers, pairs.batches, timing)
        notes.append(
            f"Padding of {shape}: {pairs.padding_share:.1%} of all positions; it would be "
            f"{pairs.unsorted_padding_share:.0%} if pairs met in random order, as in a plain data loader."
        )
    report = Report(
        name="training_step",
        machine=describe_machine([threads]),
        loads=(load_before, load_average()),
        settings={"max_tokens": max_tokens, "timing": timing},
        notes=notes,
        tables=[
            Table(
                title="Training step",
                columns=_COLUMNS,
                rows=[finish.cells(timing.clock) for finish in finishes],
            )
        ],
        results=[{"kind": "training step", **asdict(finish)} for finish in finishes],
    )
    timing.deliver(report)
    if any(finish.is_wrong for finish in finishes):
        raise click.exceptions.Exit(1)


def _line_up(network: Transformer, precisions: Sequence[Precision]) -> dict[str, Trainer]:
    """Ours, and theirs where it is installed, in every precision; by name."""
    trainers: list[Trainer] = [DragomanTrainer(network, precision) for precision in precisions]
    if installed_version("transformers"):
        from benchmarks.peers.hugging_face_training import HuggingFaceTrainer

        trainers += [HuggingFaceTrainer(network, precision) for precision in precisions]
    return {f"{trainer.name} {trainer.precision}": trainer for trainer in trainers}


def _hold(
    shape: str, trainers: Mapping[str, Trainer], batches: Sequence[Batch], timing: Timing
) -> list[Finish]:
    losses = {name: trainer.cross_entropy(batches[0]) for name, trainer in trainers.items()}
    expected = next(iter(losses.values()))
    for trainer in trainers.values():
        for step, batch in enumerate(batches[:_WARM_UP], 1):
            trainer.update(step, batch)
    timed = batches[_WARM_UP:]
    timings = take_turns({name: _updates(each, timed) for name, each in trainers.items()}, timing.rounds)
    return [
        Finish(
            network=shape,
            trainer=trainer.name,
            precision=trainer.precision,
            loss=losses[name],
            is_wrong=not math.isclose(losses[name], expected, rel_tol=_TOLERANCE),
            tokens=[batch.num_source_tokens + batch.num_target_tokens for batch in timed],
            durations=timings[name],
            ratio=None
            if trainer.name == OURS
            else speed_ratio(timings[f"{OURS} {trainer.precision}"], timings[name], timing.clock),
        )
        for name, trainer in trainers.items()
    ]


def _updates(trainer: Trainer, batches: Sequence[Batch]) -> Callable[[int], Duration]:
    return lambda current: timed(lambda: trainer.update(current + 1, batches[current]))


if __name__ == "__main__":
    main()
