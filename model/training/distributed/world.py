"""ⓔ What a process knows of the others that train the same network with it. No torch.distributed.

What several processes divide are the batches of an update (model.training.data.batches), never what
those add up to: their loss curve is that of one process with the same configuration.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import torch
from torch import Tensor

Item = TypeVar("Item")


class World:
    """A process alone, for which agreeing costs nothing; the base of one among several.

    Attributes:
        rank: Of this process, from 0.
        size: How many there are.
    """

    rank = 0
    size = 1

    @property
    def is_first(self) -> bool:
        """Whether this is the process that writes files and talks to people."""
        return self.rank == 0

    def device(self, kind: str) -> torch.device:
        """The device of this process, of a kind that is there: `cpu` or `cuda`."""
        return torch.device(kind)

    def highest(self, value: int) -> int:
        """The highest of the values that the processes bring."""
        return value

    @contextmanager
    def in_turn(self) -> Iterator[None]:
        """The first process goes through what is inside before the others."""
        yield

    def require_same(self, what: str, description: str) -> None:
        """Refuse to go on if the processes do not see the same.

        Raises:
            TrainingError: Naming `what`.
        """

    def copy_from_first(self, tensors: Sequence[Tensor]) -> None:
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
        """Add up a tensor over all processes, in place."""

    def share(self, items: Sequence[Item]) -> Sequence[Item]:
        """Those of some items that are this process' to work on; none where there are too few for all."""
        return items[self.rank :: self.size]

    def whole(self, share: Sequence[str | None]) -> list[str | None]:
        """What became of the items that `share` divided: that of all processes, in their order."""
        return list(share)

    def seed_update(self, seed: int, step: int) -> None:
        """Make what this process draws in an update its own; alone, its generators just run on."""

    def tells(self, error: Exception) -> bool:
        """Whether this process is the one that tells people why the run fails."""
        return True


ALONE = World()
