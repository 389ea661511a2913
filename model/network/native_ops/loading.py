"""Finds the native operators for some tensors and lends them PyTorch's threads."""

import ctypes
import logging
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from model.native.operators import Operators, load_operators


def require_first_derivative() -> None:
    """Called in a backward pass, refuses to be part of one that is to be differentiated itself.

    `once_differentiable` would let through what begins with a constant slope, as that of a loss does.

    Raises:
        RuntimeError: If a graph of the gradients is asked for.
    """
    if torch.is_grad_enabled():  # in a backward pass, it is for `create_graph=True` alone
        raise RuntimeError(
            "native operators have first derivatives only; for create_graph=True, use PyTorch alone"
        )


logger = logging.getLogger(__name__)

NUMBER_TYPES = torch.float32, torch.bfloat16
LANES = 16
"""Rows of tensors must be multiples of so many numbers for most operators."""

_OPENMP = "libgomp*.so*", "libiomp5*.so*", "libomp*.so*"


def operators_for(*tensors: Tensor) -> Operators | None:
    """The native operators, if they can compute with these tensors; None means: plain PyTorch."""
    if torch.compiler.is_compiling():
        return None
    if any(tensor.device.type != "cpu" or tensor.dtype not in NUMBER_TYPES for tensor in tensors):
        return None
    return installed_operators()


def is_bfloat16(tensor: Tensor) -> bool:
    """Whether its numbers are bfloat16; those of operators are float32 otherwise."""
    return tensor.dtype == torch.bfloat16


@cache
def installed_operators() -> Operators | None:
    """Of the fastest library that this processor runs."""
    operators = load_operators()
    if operators is not None:
        operators.lend_threads(address_of_threads())
    return operators


def address_of_threads() -> int | None:
    """GOMP_parallel of the OpenMP that PyTorch brings along; None where it brings none that can be loaded."""
    torch_folder = Path(torch.__file__).parent
    for folder in (torch_folder / "lib", torch_folder.with_name("torch.libs")):
        for path in sorted(path for name in _OPENMP for path in folder.glob(name)):
            try:
                run = getattr(ctypes.CDLL(str(path)), "GOMP_parallel", None)
            except OSError as reason:
                logger.warning("training natively without the threads of %s: %s", path.name, reason)
                continue
            if run is not None:
                return ctypes.cast(run, ctypes.c_void_p).value
    return None
