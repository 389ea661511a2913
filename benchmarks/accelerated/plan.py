"""What is measured on an accelerator, and how much of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

from benchmarks.report import Table
from benchmarks.shapes import SHAPES, endless_network
from model.config import TransformerConfig
from model.decoding.pytorch.static_runner import StaticRunner
from model.decoding.pytorch.torch_runner import TorchRunner
from model.decoding.runner import Runner
from model.network.transformer import Transformer

_LONGEST = 128


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How much to measure.

    Attributes:
        device: Where.
        shape: A key of SHAPES.
        precision: What is timed; correctness also looks at float32.
        slots: Sentences side by side, for throughput.
        sentences: Sentences for correctness.
        source_tokens: Length of a source, EOS included.
        tokens: Length of a translation, for throughput.
        batch_size: Sentences at a time, beside other engines.
        training_tokens: Of a training batch, padding charged.
        probe_steps: Of the probe of a goal.
        data: Folder of the goals' corpora; None takes what is bundled.
        rounds: Repetitions, of which the median counts.
        seed: Of all that is random.
    """

    device: torch.device
    shape: str
    precision: torch.dtype
    slots: Sequence[int]
    sentences: int
    source_tokens: int
    tokens: int
    batch_size: int
    training_tokens: int
    probe_steps: int
    data: Path | None
    rounds: int
    seed: int

    @property
    def config(self) -> TransformerConfig:
        """Of the network."""
        return SHAPES[self.shape]

    def network(self, precision: torch.dtype, device: torch.device | None = None) -> Transformer:
        """One that never ends a sentence."""
        return endless_network(self.config, self.seed).to(device=device or self.device, dtype=precision)

    def static_runner(self, network: Transformer, *, widths: Sequence[int] = (1,)) -> StaticRunner:
        """Warm, with room for all that is measured."""
        rows = max(self.slots)
        runner = StaticRunner(
            network,
            self.device,
            max_rows=rows,
            max_positions=2 * rows * _LONGEST * len(widths),
            widths=widths,
            capacity=_LONGEST,
        )
        runner.warm_up()
        return runner

    def exact_runner(self, network: Transformer, device: torch.device | None = None) -> Runner:
        """With as much room."""
        positions = max(self.slots) * 2 * _LONGEST
        return TorchRunner(network, device or self.device, max_rows=max(self.slots), max_positions=positions)


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What one part found.

    Attributes:
        tables: For people.
        results: For JSON, each with its `kind`.
        notes: What a reader must know.
        is_wrong: Whether translations differ that must not.
    """

    tables: Sequence[Table]
    results: Sequence[Mapping[str, object]]
    notes: Sequence[str] = field(default_factory=tuple)
    is_wrong: bool = False
