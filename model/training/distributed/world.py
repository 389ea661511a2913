"""The device of a run and its settings, and what a process knows about those that train the same network.

Processes share the batches of an update (model.training.data.batches), never the sum over them: several
processes have the loss curve of one process with the same configuration. No torch.distributed.
"""

import ctypes
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import torch
from torch import Tensor

from model.network.layers import choose_attention_kernels
from model.training.config_sections import RunConfig
from model.training.train_config import TrainConfig
from model.validators import require

Item = TypeVar("Item")
logger = logging.getLogger(__name__)

_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4  # of glibc's malloc.h
_KEPT_BYTES = 2**31 - 1


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


def choose_device(run: RunConfig, world: World) -> torch.device:
    """The device that the configuration names; with several processes, the one of this process.

    Raises:
        ConfigError: If there is no such device here, or it cannot train in `run.precision`.
    """
    has_cuda = torch.cuda.is_available()
    require(run.device != "cuda" or has_cuda, "run.device", "auto or cpu where there is no GPU", run.device)
    device = world.device("cuda" if has_cuda and run.device != "cpu" else "cpu")
    fits = run.precision != "float16" or device.type == "cuda"
    require(fits, "run.precision", "float32 or bfloat16 on a CPU", run.precision)
    choose_attention_kernels(device)
    return device


def tune_cpu(threads: int) -> None:
    """Set numeric threads, flush denormal numbers to zero and keep freed memory, for the whole process.

    Args:
        threads: Numeric threads; 0 leaves them to torch.
    """
    if threads:
        torch.set_num_threads(threads)
    # Averages of rare gradients decay into denormals, which many processors add slowly.
    torch.set_flush_denormal(True)
    _keep_freed_memory()


@contextmanager
def tuned_cpu(threads: int) -> Iterator[None]:
    """`tune_cpu` as a context; the exit restores the threads, and denormals are kept again."""
    threads_before = torch.get_num_threads()
    tune_cpu(threads)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)
        torch.set_num_threads(threads_before)


def _keep_freed_memory() -> None:
    """Make glibc reuse large blocks; the system would zero new ones at every step."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl and macOS have none
    if mallopt is not None:
        mallopt(_M_MMAP_MAX, 0)
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
