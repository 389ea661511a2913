"""ⓔ Where a run computes, and on how many processes it may be spread."""

import logging

import torch

from model.checks import require
from model.training.run_config import Precision
from model.training.train_config import TrainConfig
from model.training.world import World

logger = logging.getLogger(__name__)


def require_batches_for_all(config: TrainConfig, world: World) -> None:
    """Refuse more processes than an update has batches, and say so where these cannot be divided evenly.

    Raises:
        ConfigError: Naming `optimisation.accumulate`.
    """
    batches = config.optimisation.accumulate
    least = f"at least {world.size}: a batch for each process"
    require(batches >= world.size, "optimisation.accumulate", least, batches)
    if batches % world.size:
        logger.warning("%d batches an update leave some of %d processes waiting", batches, world.size)


def choose_device(name: str, world: World) -> torch.device:
    """The device a configuration asks for; of several, that of this process.

    Raises:
        ConfigError: If there is no such device here.
    """
    has_cuda = torch.cuda.is_available()
    require(name != "cuda" or has_cuda, "run.device", "auto or cpu where there is no GPU", name)
    return world.device("cuda" if has_cuda and name != "cpu" else "cpu")


def require_precision(precision: Precision, device: torch.device) -> None:
    """Refuse what a device cannot train in.

    Raises:
        ConfigError: Naming `run.precision`.
    """
    fits = precision != "float16" or device.type == "cuda"
    require(fits, "run.precision", "float32 or bfloat16 on a CPU", precision)
