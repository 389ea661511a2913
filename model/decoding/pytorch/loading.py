"""⑤ A checkpoint's network on a device, in a precision."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from model.decoding.device import Precision
from model.decoding.pytorch.device_use import using
from model.network.layers import choose_attention_kernels
from model.network.parameters import parameter_names
from model.network.quantisation import Rows, int8_works, quantise
from model.network.transformer import Transformer
from model.validators import require

if TYPE_CHECKING:
    from model.checkpoint.folder import Checkpoint

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def dtype_of(precision: Precision, device: torch.device | str) -> torch.dtype:
    """The floating-point type of a network; with int8, of the parts that are not quantised."""
    if precision == "int8":
        return torch.float32 if torch.device(device).type == "cpu" else torch.bfloat16
    return _DTYPES[precision]


def apply_precision(
    network: Transformer, precision: Precision, stored_rows: Callable[[str], Rows | None] = lambda _: None
) -> Transformer:
    """Finish a network that is in `dtype_of(precision)`; int8 replaces its projections.

    Args:
        network: The network.
        precision: Precision of the computation.
        stored_rows: See `quantise`.

    Raises:
        ConfigError: If PyTorch cannot multiply int8 matrices on the network's device.
    """
    if precision == "int8":
        device = next(network.parameters()).device
        others = f"auto, float32, bfloat16 or float16 on this {device.type}"
        require(int8_works(device), "precision", others, precision)
        quantise(network, stored_rows)
        network.state_dtype = torch.bfloat16  # its rounding is negligible next to 8-bit weights
    return network


def load_network(checkpoint: "Checkpoint", device: str, precision: Precision) -> Transformer:
    """A checkpoint's network on a device, in a precision.

    Raises:
        ConfigError: If PyTorch does not support the precision on the device.
    """
    choose_attention_kernels(device)
    network = checkpoint.network(dtype=dtype_of(precision, device))
    weights, names, dtypes = checkpoint.weights, parameter_names(checkpoint.config), checkpoint.weights.dtypes

    def stored_rows(name: str) -> Rows | None:
        tensor = weights[names[name]] if dtypes[names[name]] == "int8" else None
        if tensor is None or tensor.scale is None:
            return None
        values, scale = torch.from_numpy(tensor.values), torch.from_numpy(tensor.scale)
        return values.to(device), scale.to(device)[:, None]

    with using(torch.device(device)):
        return apply_precision(network.to(device), precision, stored_rows)
