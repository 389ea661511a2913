"""Initial values of every weight, or none for weights that are about to be read.

Modules draw initial values when they are constructed. On the meta device the draws need PyTorch's
reference implementations, whose import takes longer than the rest of the start; `meta_init` skips them.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from model.config import TransformerConfig


def initialise(network: nn.Module, config: TransformerConfig) -> None:
    """Draw all weights anew, as `config.initialisation` says; biases become 0.

    `xavier`: uniform for every projection (each of a fused pair on its own), N(0, 1/M) for tokens.
    `normal`: N(0, 0.02), and 0.02 / sqrt(2 × layers) where a block writes to the residual stream.
    """
    depth = config.num_encoder_layers + config.num_decoder_layers
    for name, module in network.named_modules():
        if isinstance(module, nn.Linear):
            _initialise_linear(name, module, config, depth)
        elif isinstance(module, nn.Embedding):
            scaled = config.initialisation == "xavier"
            nn.init.normal_(module.weight, std=config.model_dim**-0.5 if scaled else 0.02)


def _initialise_linear(name: str, linear: nn.Linear, config: TransformerConfig, depth: int) -> None:
    if config.initialisation == "xavier":
        for part in linear.weight.chunk(2 if name.endswith("key_value") else 1):
            nn.init.xavier_uniform_(part)
    else:
        writes_residual = name.endswith(".output")
        nn.init.normal_(linear.weight, std=0.02 / math.sqrt(2 * depth) if writes_residual else 0.02)
    if linear.bias is not None:
        nn.init.zeros_(linear.bias)


@contextmanager
def meta_init() -> Iterator[None]:
    """Modules constructed inside have parameters of the right shape and type, without memory or values."""
    with torch.device("meta"), _SkipInitialisation():
        yield


class _SkipInitialisation(TorchFunctionMode):
    """Skips the functions of `torch.nn.init`."""

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
