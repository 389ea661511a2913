"""The device of a run, its precision, and the settings that make training on a CPU faster."""

import ctypes
import logging
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from model.network.layers import choose_attention_kernels
from model.training.config.sections import RunConfig
from model.training.config.train_config import TrainConfig
from model.training.distributed.world import World
from model.validators import require

logger = logging.getLogger(__name__)

_KEPT_BYTES = 2**31 - 1


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


_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4


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
