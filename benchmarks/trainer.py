"""What is raced in training: one update of the weights; and ours."""

import copy
from typing import Protocol

import torch

from benchmarks.engine import OURS
from model.network.transformer import Transformer
from model.training.config.optimisation import OptimisationConfig
from model.training.config.run import Precision, RunConfig
from model.training.config.train_config import TrainConfig
from model.training.data.batches import Batch
from model.training.step import Updater, sequence_loss


class Trainer(Protocol):
    """A contestant, with a network of its own.

    Attributes:
        name: Whose it is.
        precision: Of its matrix products, in our words.
    """

    @property
    def name(self) -> str: ...  # noqa: D102 (see the class)

    @property
    def precision(self) -> Precision: ...  # noqa: D102

    def cross_entropy(self, batch: Batch) -> float:
        """−log P of the reference a target token, in nats, without dropout and before any update."""

    def update(self, step: int, batch: Batch) -> None:
        """Forward, loss, backward, clip, step; steps are counted from 1."""


class DragomanTrainer:
    """Our update, with label smoothing.

    Args:
        network: To begin with; copied.
        precision: Of its matrix products.
        device: Where to compute.
        compiled: By torch.compile.
    """

    def __init__(
        self, network: Transformer, precision: Precision, device: torch.device, *, compiled: bool = False
    ) -> None:
        self.name = f"{OURS}, compiled" if compiled else OURS
        self.precision = precision
        self._network = copy.deepcopy(network).to(device)
        run = RunConfig(max_steps=1, precision=precision, compile=compiled)
        self._updater = Updater(self._network, network.config, TrainConfig(corpora=(), run=run), device)

    @torch.inference_mode()
    def cross_entropy(self, batch: Batch) -> float:
        """See Trainer."""
        loss = sequence_loss(self._network.eval(), batch, self._network.config, smoothing=0.0)
        return float(loss.cross_entropy) / batch.num_target_tokens

    def update(self, step: int, batch: Batch) -> None:
        """See Trainer."""
        self._updater.update(step, [batch])


OPTIMISATION = OptimisationConfig()
"""AdamW's settings, the same for all."""
