"""The device of a run, and the numeric threads, number handling and memory of its processor."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from model.network.layers import choose_attention_kernels
from model.training.config_sections import RunConfig
from model.training.distributed.world import World
from model.validators import require

_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4  # of glibc's malloc.h
_KEPT_BYTES = 2**31 - 1


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
