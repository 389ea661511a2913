"""How fast weights are updated: our training step compared with Hugging Face's, on the same batches.

python -m benchmarks.training --output runs/bench
python -m benchmarks.training --shape base --device cuda --compile
"""

import copy
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Protocol

import click
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from benchmarks.harness.options import Timing, benchmark, counted, device_option, several, timing_options
from benchmarks.harness.report import Row, rounded
from benchmarks.harness.timing import Ratio, median, pin, speed_ratio, take_turns
from benchmarks.weights import FIRST_WORD, SHAPES, untrained_network
from model.config import TransformerConfig
from model.network.transformer import Transformer
from model.training.config_sections import BatchConfig, OptimisationConfig, Precision, RunConfig
from model.training.data.batches import Batch, plan_epoch
from model.training.data.dataset import Lengths
from model.training.distributed.world import tune_cpu
from model.training.optimisation.measurements import measured_peak, operations_of_batch, wait_for
from model.training.optimisation.objective import Smoothing
from model.training.optimisation.optimiser import build_optimiser
from model.training.optimisation.step import Updater, autocast, sequence_loss
from model.training.train_config import TrainConfig

WARM_UP = 2
"""Batches that are trained on before any is timed."""
_PRECISIONS = ("float32", "bfloat16")
_TOLERANCE = 1e-4
_NO_LABEL = -100
_OPTIMISATION = OptimisationConfig()
# Log-normal: half of the sources have up to 14 tokens, one in ten has more than 30.
_MEDIAN, _SPREAD, _TRANSLATION_SPREAD = 14.0, 0.6, 0.2
_SHORTEST, _LONGEST = 3, 128
# As many as a small corpus has: enough to fill batches with pairs of one length.
_NUM_PAIRS = 30_000
_SAME_WORK = (
    "Same initial weights, batches, dropout rates, AdamW, clipping and process settings for both; ours also "
    "smooths its labels. Tokens are source and target tokens, without padding. The share of the peak is what "
    "the matrix products of these tokens take at least, over what a large product reaches here."
)


class Trainer(Protocol):
    """A training framework with a network of its own."""

    def cross_entropy(self, batch: Batch) -> float:
        """−log P of the reference a target token, in nats, without dropout and before any update."""

    def update(self, step: int, batch: Batch) -> None:
        """Forward, loss, backward, clip, step; steps are counted from 1."""


class _DragomanTrainer:
    """Our update, with label smoothing."""

    def __init__(
        self, network: Transformer, precision: Precision, device: torch.device, *, compiled: bool = False
    ) -> None:
        self._network = copy.deepcopy(network).to(device)
        run = RunConfig(max_steps=1, precision=precision, compile=compiled)
        self._updater = Updater(self._network, TrainConfig(corpora=(), run=run), device)

    @torch.inference_mode()
    def cross_entropy(self, batch: Batch) -> float:
        loss = sequence_loss(self._network.eval(), batch, Smoothing.of(self._network.config, 0.0))
        return float(loss.cross_entropy) / batch.num_target_tokens

    def update(self, step: int, batch: Batch) -> None:
        self._updater.update(step, [batch])


class _HuggingFaceTrainer:
    """Hugging Face's MarianMTModel: its own loss, the same optimiser as ours.

    Its attention is the faster one: on a GPU `sdpa`, the default; on a CPU `eager`, which is as fast in
    float32 and faster in bfloat16.
    """

    def __init__(self, network: Transformer, precision: Precision, device: torch.device) -> None:
        from model.checkpoint.exporting.hugging_face import hugging_face_model

        self._device, self._precision, self._pad_id = device, precision, network.config.pad_id
        self._model = hugging_face_model(network, "marian")
        nn.Module.to(self._model, device)
        self._model.set_attn_implementation("sdpa" if device.type == "cuda" else "eager")
        self._optimiser = build_optimiser(self._model, _OPTIMISATION)

    @torch.inference_mode()
    def cross_entropy(self, batch: Batch) -> float:
        self._model.eval()
        return float(self._loss(batch))

    def update(self, step: int, batch: Batch) -> None:
        self._model.train()
        self._optimiser.zero_grad(set_to_none=True)
        with autocast(self._device, self._precision):
            loss = self._loss(batch)
        loss.backward()
        nn.utils.clip_grad_norm_(self._model.parameters(), _OPTIMISATION.clip_norm)
        self._optimiser.step()

    def _loss(self, batch: Batch) -> Tensor:
        """Mean over the target tokens."""
        result: Tensor = self._model(
            input_ids=batch.source_NS,
            attention_mask=(batch.source_NS != self._pad_id).long(),
            decoder_input_ids=batch.decoder_input_NT,
            labels=batch.labels_NT.masked_fill(batch.labels_NT == self._pad_id, _NO_LABEL),
        ).loss
        return result


@dataclass(frozen=True, kw_only=True)
class Result:
    """The speed of one trainer."""

    network: str
    trainer: str  # name and precision
    loss: float  # cross entropy a target token of the first batch, in nats, before any update
    is_wrong: bool  # whether that is not our loss
    tokens: Sequence[int]  # source and target tokens of each round
    operations: Sequence[float]  # operations of each round's matrix products, without padding
    peak: float  # operations a second of a large matrix product in this precision
    seconds: Sequence[float]  # of each round
    ratio: Ratio  # how many times as fast ours is in the same precision

    def row(self) -> Row:
        """A row of the table; a trainer with another loss gets no figures."""
        rate, operations_rate = (
            median([n / seconds for n, seconds in zip(amounts, self.seconds, strict=True)])
            for amounts in (self.tokens, self.operations)
        )
        return {
            "network": self.network,
            "trainer": self.trainer,
            "first loss, nats a token": f"{self.loss:.4f}",
            "tokens/s": "–" if self.is_wrong else rounded(rate),
            "of the peak (MFU)": "–" if self.is_wrong else f"{operations_rate / self.peak:.0%}",
            "ours is … × this": "another loss" if self.is_wrong else str(self.ratio),
        }


def measure(
    shape: str,
    precisions: Sequence[Precision],
    batches: Sequence[Batch],
    device: torch.device,
    *,
    seed: int,
    compiled: bool,
) -> list[Result]:
    """Train all on all batches, in turns, and time all batches except the first WARM_UP."""
    network = untrained_network(SHAPES[shape], seed)
    trainers: dict[tuple[str, Precision], Trainer] = {}
    for precision in precisions:
        trainers["dragoman", precision] = _DragomanTrainer(network, precision, device)
        if compiled:
            trainers["dragoman, compiled", precision] = _DragomanTrainer(
                network, precision, device, compiled=True
            )
        if find_spec("transformers"):
            trainers["hugging face", precision] = _HuggingFaceTrainer(network, precision, device)
    there = [batch.to(device) for batch in batches]
    losses = {key: trainer.cross_entropy(there[0]) for key, trainer in trainers.items()}
    for trainer in trainers.values():
        for step, batch in enumerate(there[:WARM_UP], 1):
            trainer.update(step, batch)
    rounds = there[WARM_UP:]
    timings = take_turns({key: _updates(each, rounds, device) for key, each in trainers.items()}, len(rounds))
    peaks = {precision: measured_peak(device, precision) for precision in precisions}
    return [
        Result(
            network=shape,
            trainer=f"{name} {precision}",
            loss=loss,
            is_wrong=not math.isclose(loss, losses["dragoman", precisions[0]], rel_tol=_TOLERANCE),
            tokens=[batch.num_source_tokens + batch.num_target_tokens for batch in rounds],
            operations=[operations_of_batch(SHAPES[shape], batch) for batch in batches[WARM_UP:]],
            peak=peaks[precision],
            seconds=timings[name, precision],
            ratio=speed_ratio(timings["dragoman", precision], timings[name, precision]),
        )
        for (name, precision), loss in losses.items()
    ]


def _updates(trainer: Trainer, batches: Sequence[Batch], device: torch.device) -> Callable[[int], float]:
    def update(current: int) -> float:
        began = time.perf_counter()
        trainer.update(WARM_UP + current + 1, batches[current])
        wait_for(device)
        return time.perf_counter() - began

    return update


def pair_batches(
    config: TransformerConfig, count: int, max_tokens: int, seed: int
) -> tuple[list[Batch], float]:
    """The first batches of an epoch as our trainer plans it, of random words, and its share of padding."""
    sources, targets = usual_lengths(seed)
    plan = plan_epoch(sources, targets, np.ones(len(sources)), BatchConfig(max_tokens=max_tokens), [seed])
    words = torch.Generator().manual_seed(seed)
    chosen = (plan[number % len(plan)] for number in range(count))
    positions = sum(len(pairs) * int(sources[pairs].max() + targets[pairs].max()) for pairs in plan)
    padding_share = 1 - int(sources.sum() + targets.sum()) / positions
    return [_batch(config, sources[pairs], targets[pairs], words) for pairs in chosen], padding_share


def usual_lengths(seed: int) -> tuple[Lengths, Lengths]:
    """Tokens of sources and targets, as in news and talks; translations are about as long as sources."""
    generator = np.random.default_rng(seed)
    sources = _MEDIAN * np.exp(_SPREAD * generator.standard_normal(_NUM_PAIRS))
    targets = sources * np.exp(_TRANSLATION_SPREAD * generator.standard_normal(_NUM_PAIRS))
    lengths = np.clip(np.rint([sources, targets]), _SHORTEST, _LONGEST).astype(np.int32)
    return lengths[0], lengths[1]


def _batch(
    config: TransformerConfig, sources: Lengths, targets: Lengths, generator: torch.Generator
) -> Batch:
    """Random words, padded, with the targets shifted for teacher forcing."""
    source_NS, labels_NT = (_sentences(config, side, generator) for side in (sources, targets))
    decoder_input_NT = labels_NT.roll(1, dims=1)
    decoder_input_NT[:, 0] = config.decoder_start_id
    decoder_input_NT[labels_NT == config.pad_id] = config.pad_id
    return Batch(
        source_NS=source_NS,
        decoder_input_NT=decoder_input_NT,
        labels_NT=labels_NT,
        num_pairs=len(sources),
        num_source_tokens=int(sources.sum()),
        num_target_tokens=int(targets.sum()),
        epoch=0,
        index=0,
    )


def _sentences(config: TransformerConfig, lengths: Lengths, generator: torch.Generator) -> Tensor:
    rows = [
        torch.randint(FIRST_WORD, config.source_vocab_size, (int(n),), generator=generator) for n in lengths
    ]
    for row in rows:
        row[-1] = config.eos_id
    return pad_sequence(rows, batch_first=True, padding_value=config.pad_id)


@benchmark
@several("shape", "shapes", tuple(SHAPES), ["small"], "Random networks.")
@several("precision", "precisions", _PRECISIONS, _PRECISIONS, "Matrix products' numbers.")
@counted("max-tokens", 4096, "Tokens of a batch, padding charged.")
@counted("threads", 2, "Numeric threads, on as many cores.")
@click.option("--compile", "compiled", is_flag=True, help="Measure our step under torch.compile as well.")
@device_option
@timing_options
def main(
    shapes: Sequence[str],
    precisions: Sequence[Precision],
    max_tokens: int,
    threads: int,
    compiled: bool,
    device: str,
    timing: Timing,
) -> None:
    """Compare training steps on the same weights and batches; the first loss is compared first.

    Exit status 1 if a trainer's loss is not ours.
    """
    report = timing.report("training", {"max_tokens": max_tokens, "device": device}, [threads])
    report.notes.append(_SAME_WORK)
    if device == "cpu":
        pin(threads)
    tune_cpu(threads)
    results: list[Result] = []
    for shape in shapes:
        batches, padding = pair_batches(SHAPES[shape], WARM_UP + timing.rounds, max_tokens, timing.seed)
        results += measure(
            shape, precisions, batches, torch.device(device), seed=timing.seed, compiled=compiled
        )
        report.notes.append(f"Padding of {shape}, for both: {padding:.1%} of all positions.")
    report.add("Training step", [each.row() for each in results], results)
    report.deliver(timing.output)
    if any(result.is_wrong for result in results):
        raise click.exceptions.Exit(1)


if __name__ == "__main__":
    main()
