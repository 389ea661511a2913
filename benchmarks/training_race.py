"""Trainers on the same weights and batches, taking turns; who computes another loss gets no figures."""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

from benchmarks.engine import OURS
from benchmarks.machine import installed_version
from benchmarks.report import rounded
from benchmarks.rounds import Clock, Duration, Ratio, speed_ratio, take_turns, timed
from benchmarks.trainer import DragomanTrainer, Trainer
from benchmarks.training_work import operations
from model.config import TransformerConfig
from model.network.transformer import Transformer
from model.training.config.run import Precision
from model.training.data.batches import Batch
from model.training.report.utilisation import measured_peak, wait_for

COLUMNS = ("network", "trainer", "first loss, nats a token", "tokens/s", "of the peak (MFU)", "comparison")
WARM_UP = 2
"""Batches that are trained on before any is timed."""
_TOLERANCE = 1e-4


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
        operations: Of matrix products of each round, padding left out.
        peak: Operations a second of a large matrix product in this precision.
        durations: Of each round.
        ratio: How many times as fast ours is in the same precision; None for ours.
    """

    network: str
    trainer: str
    precision: str
    loss: float
    is_wrong: bool
    tokens: Sequence[int]
    operations: Sequence[float]
    peak: float
    durations: Sequence[Duration]
    ratio: Ratio | None

    def cells(self, clock: Clock) -> tuple[str, ...]:
        """A row of the table."""
        name = f"{self.trainer} {self.precision}"
        if self.is_wrong:
            return self.network, name, f"{self.loss:.4f}", "–", "–", "another loss: not comparable"
        # The peak is of seconds that pass, so its share is, too.
        shares = (n / each.wall / self.peak for n, each in zip(self.operations, self.durations, strict=True))
        rates = (n / each.by(clock) for n, each in zip(self.tokens, self.durations, strict=True))
        return (
            self.network,
            name,
            f"{self.loss:.4f}",
            rounded(statistics.median(rates)),
            f"{statistics.median(shares):.0%}",
            "" if self.ratio is None else f"{OURS} {self.precision} is {self.ratio} × this",
        )


def line_up(
    network: Transformer, precisions: Sequence[Precision], device: torch.device, *, compiled: bool
) -> dict[str, Trainer]:
    """Ours, compiled too if that is asked for, and theirs where it is installed, in every precision."""
    trainers: list[Trainer] = [DragomanTrainer(network, precision, device) for precision in precisions]
    if compiled:
        trainers += [DragomanTrainer(network, each, device, compiled=True) for each in precisions]
    if installed_version("transformers"):
        from benchmarks.peers.hugging_face_training import HuggingFaceTrainer

        trainers += [HuggingFaceTrainer(network, precision, device) for precision in precisions]
    return {f"{trainer.name} {trainer.precision}": trainer for trainer in trainers}


def hold(
    shape: str,
    config: TransformerConfig,
    trainers: Mapping[str, Trainer],
    batches: Sequence[Batch],
    *,
    device: torch.device,
    clock: Clock,
) -> list[Finish]:
    """Train everybody on all batches, and time all but the first WARM_UP.

    Args:
        shape: Name of the network.
        config: Its shape.
        trainers: By name, ours first.
        batches: One more than WARM_UP at least, in CPU memory.
        device: Where all compute.
        clock: What ratios are computed from.
    """
    there = [batch.to(device) for batch in batches]
    losses = {name: trainer.cross_entropy(there[0]) for name, trainer in trainers.items()}
    expected = next(iter(losses.values()))
    peaks = {
        precision: measured_peak(device, precision)
        for precision in {each.precision for each in trainers.values()}
    }
    for trainer in trainers.values():
        for step, batch in enumerate(there[:WARM_UP], 1):
            trainer.update(step, batch)
    rounds = there[WARM_UP:]
    contestants = {name: _updates(trainer, rounds, device) for name, trainer in trainers.items()}
    timings = take_turns(contestants, len(rounds))
    return [
        Finish(
            network=shape,
            trainer=trainer.name,
            precision=trainer.precision,
            loss=losses[name],
            is_wrong=not math.isclose(losses[name], expected, rel_tol=_TOLERANCE),
            tokens=[batch.num_source_tokens + batch.num_target_tokens for batch in rounds],
            operations=[operations(config, batch) for batch in batches[WARM_UP:]],
            peak=peaks[trainer.precision],
            durations=timings[name],
            ratio=None
            if trainer.name == OURS
            else speed_ratio(timings[f"{OURS} {trainer.precision}"], timings[name], clock),
        )
        for name, trainer in trainers.items()
    ]


def _updates(trainer: Trainer, batches: Sequence[Batch], device: torch.device) -> Callable[[int], Duration]:
    def update(current: int) -> None:
        trainer.update(WARM_UP + current + 1, batches[current])
        wait_for(device)

    return lambda current: timed(lambda: update(current))
