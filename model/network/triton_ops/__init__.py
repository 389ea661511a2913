"""The Triton kernels of a decoder step on a GPU.

    kernels     the kernels themselves; the only module that needs Triton
    layers      attention of one query a row by block tables; the embedding; the addition to the residual
                stream with the norm after it
    choice      the likeliest tokens, and what a greedy step and a beam step record of them

A kernel is an operator of PyTorch, so that a recording, a profiler or a test sees one operator for it.
"""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

import torch
from torch import Tensor

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
