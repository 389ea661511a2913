"""A network's shape without any numbers, for weights that are about to be read.

Modules draw their first values when they are made. On the meta device that costs nothing but
PyTorch's reference implementations, whose import takes longer than everything else of a start.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode


@contextmanager
def blank() -> Iterator[None]:
    """Modules made inside have parameters of the right shape and type, but no memory and no values."""
    with torch.device("meta"), _WithoutFirstValues():
        yield


class _WithoutFirstValues(TorchFunctionMode):
    """Lets everything pass but the drawing of random numbers by `torch.nn.init`."""

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401 (PyTorch's signature)
        values = dict(kwargs or {})
        if getattr(function, "__module__", None) == "torch.nn.init":
            return values.get("tensor", args[0] if args else None)
        return function(*args, **values)
