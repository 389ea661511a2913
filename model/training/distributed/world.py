"""What a process knows about those that train the same network.

Processes share the batches of an update (model.training.data.batches), never the sum over them: several
processes have the loss curve of one process with the same configuration. No torch.distributed.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import torch
from torch import Tensor

from model.training.train_config import TrainConfig
from model.validators import require

Item = TypeVar("Item")
logger = logging.getLogger(__name__)


class World:
    """A single process, for which every collective operation is trivial; base of DistributedWorld.

    Attributes:
        rank: Number of this process, from 0.
        size: Number of processes.
    """

    rank = 0
    size = 1

    @property
    def is_first(self) -> bool:
        """Returns whether this process writes the files and the log."""
        return self.rank == 0

    def device(self, kind: str) -> torch.device:
        """The device of this process, of a kind that exists here: `cpu` or `cuda`."""
        return torch.device(kind)

    def all_max(self, value: int) -> int:
        """The maximum of the values of all processes."""
        return value

    @contextmanager
    def main_process_first(self) -> Iterator[None]:
        """The first process executes the body before the others do."""
        yield

    def require_same(self, what: str, description: str) -> None:
        """Refuse to continue if descriptions differ between processes.

        Raises:
            TrainingError: Naming `what`.
        """

    def broadcast(self, tensors: Sequence[Tensor]) -> None:
        """Overwrite tensors with those of the first process."""

    def sum_gradients(self, weights: Sequence[Tensor]) -> None:
        """Replace the gradient of every weight by its sum over all processes.

        A weight without a gradient gets zeros, because another process may have one for it, and an
        optimiser treats zeros differently from None: momentum continues, and the weight decays.
        """
        for weight in weights:
            if weight.grad is None:
                weight.grad = torch.zeros_like(weight)

    def sum_(self, tensor: Tensor) -> None:
        """Sum a tensor over all processes, in place."""

    def shard(self, items: Sequence[Item]) -> Sequence[Item]:
        """The items that this process works on; empty where there are fewer items than processes."""
        return items[self.rank :: self.size]

    def gather(self, shard: Sequence[str | None]) -> list[str | None]:
        """The results of all processes, in the order of the items that `shard` divided."""
        return list(shard)

    def seed_update(self, seed: int, step: int) -> None:
        """Seed the generators for one update; a single process continues its generators instead."""

    def should_report(self, error: Exception) -> bool:
        """Returns whether this process prints the error that ends the run."""
        return True


SINGLE_PROCESS = World()


def require_batches_for_all(config: TrainConfig, world: World) -> None:
    """Refuse more processes than an update has batches; warn if they cannot be divided evenly.

    Raises:
        ConfigError: Naming `optimisation.accumulate`.
    """
    batches = config.optimisation.accumulate
    least = f"at least {world.size}: a batch for each process"
    require(batches >= world.size, "optimisation.accumulate", least, batches)
    if batches % world.size:
        logger.warning("%d batches an update leave some of %d processes waiting", batches, world.size)
