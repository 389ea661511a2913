"""Finds the native operators for some tensors, and gives them PyTorch's threads."""

import ctypes
import logging
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from model.native.operators import Operators, load_operators

logger = logging.getLogger(__name__)

NUMBER_TYPES = torch.float32, torch.bfloat16
LANES = 16
"""Most operators need rows whose length is a multiple of this."""
_OPENMP = "libgomp*.so*", "libiomp5*.so*", "libomp*.so*"


def require_first_derivative() -> None:
    """Refuse second derivatives; called in a backward pass.

    `once_differentiable` would accept a backward pass whose upstream gradient is constant, as that of a loss.

    Raises:
        RuntimeError: If the backward pass creates a graph.
    """
    if torch.is_grad_enabled():  # in a backward pass only with create_graph=True
        raise RuntimeError(
            "native operators have first derivatives only; for create_graph=True, use PyTorch alone"
        )


def operators_for(*tensors: Tensor) -> Operators | None:
    """The native operators if they support these tensors; None if PyTorch has to compute."""
    if torch.compiler.is_compiling():
        return None
    if any(tensor.device.type != "cpu" or tensor.dtype not in NUMBER_TYPES for tensor in tensors):
        return None
    return installed_operators()


def is_bfloat16(tensor: Tensor) -> bool:
    """Returns whether a tensor is bfloat16; operators support float32 otherwise."""
    return tensor.dtype == torch.bfloat16


@cache
def installed_operators() -> Operators | None:
    """The operators of the fastest library for this processor; None without a library."""
    operators = load_operators()
    if operators is not None:
        operators.lend_threads(address_of_threads())
    return operators


def address_of_threads() -> int | None:
    """Address of GOMP_parallel in PyTorch's OpenMP library; None if it has none that can be loaded."""
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
