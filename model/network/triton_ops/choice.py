"""Whether the Triton kernels compute a decoder step, and how PyTorch sees them."""

import logging
from collections.abc import Callable
from functools import cache
from typing import ParamSpec, TypeVar

import torch
from torch import Tensor

from model.config import TransformerConfig

logger = logging.getLogger(__name__)

_LIBRARY = torch.library.Library("dragoman", "FRAGMENT")
_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result", Tensor, None)


def operator(schema: str) -> Callable[[Callable[_Arguments, _Result]], Callable[_Arguments, _Result]]:
    """Make a function an operator of PyTorch, `torch.ops.dragoman`, and have it called as one.

    `torch.library.custom_op` would do the same, but its operators load the compiler of PyTorch.

    Args:
        schema: Its name, arguments and result; `(a!)` marks what it overwrites.
    """

    def register(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
        name = _LIBRARY.define(schema)
        _LIBRARY.impl(name, function, "CompositeExplicitAutograd")
        registered: Callable[_Arguments, _Result] = getattr(torch.ops.dragoman, name)
        return registered

    return register


@cache
def kernels_work(device: torch.device) -> bool:
    """Whether the kernels run on a device and compute what PyTorch does; the log says once why they do not.

    The first call on a GPU compiles the kernels for small tensors, in some seconds.
    """
    if device.type != "cuda":
        return False
    from model.network.triton_ops.self_test import require_agreement

    try:
        for dtype in (torch.float32, torch.bfloat16):
            require_agreement(device, dtype)
    except Exception as reason:  # whatever it is, PyTorch can do without the kernels
        logger.warning(
            "decoder steps on %s use no Triton kernels: %s: %s", device, type(reason).__name__, reason
        )
        return False
    logger.info("decoder steps on %s use Triton kernels", device)
    return True


def is_step_fused(config: TransformerConfig, device: torch.device) -> bool:
    """Whether the kernels are used: on a GPU where they work, for networks that they support."""
    return config.positions != "relative_vectors" and kernels_work(device)
