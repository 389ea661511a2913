"""⑤ Where a network runs and in which numbers: devices, floating-point types, int8.

`auto` is float32 on a CPU and bfloat16 on a GPU. On a CPU bfloat16 halves the memory, but its
rounding lets a sentence's batch mates tip a close decision, so it must be asked for by name.
"""

from typing import Literal, cast

import torch

from model.checks import require, require_choice
from model.errors import ConfigError
from model.quantisation import int8_works, quantise
from model.transformer import Transformer

Precision = Literal["float32", "bfloat16", "float16", "int8"]

DEVICES = ("auto", "cpu", "cuda")
PRECISIONS = ("auto", "float32", "bfloat16", "float16", "int8")

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def resolve_device(name: str) -> torch.device:
    """The device that `auto`, `cpu`, `cuda` or `cuda:N` means on this machine.

    Raises:
        ConfigError: If there is no such device.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    kind, _, index = name.partition(":")
    well_formed = kind in DEVICES and (not index or (kind == "cuda" and index.isdecimal()))
    require(well_formed, "device", "one of " + ", ".join(DEVICES), name)
    if kind == "cuda":
        present = int(index or 0) < torch.cuda.device_count()
        require(present, "device", "auto or cpu, as there is no such GPU", name)
    return torch.device(name)


def resolve_precision(name: str, device: torch.device) -> Precision:
    """The precision that a name means on a device.

    Raises:
        ConfigError: If the name is unknown, or the device cannot compute so.
    """
    require_choice("precision", name, PRECISIONS)
    if name == "auto":
        return "float32" if device.type == "cpu" else "bfloat16"
    if name == "int8" and not int8_works(device):
        raise ConfigError("precision", f"auto, float32, bfloat16 or float16 on this {device.type}", name)
    return cast(Precision, name)


def dtype_of(precision: Precision, device: torch.device) -> torch.dtype:
    """The floating-point type of a network; with int8, of all that is not quantised."""
    if precision == "int8":
        return _DTYPES[resolve_precision("auto", device)]
    return _DTYPES[precision]


def apply_precision(network: Transformer, precision: Precision) -> Transformer:
    """Finish a network that was loaded in `dtype_of(precision)`; int8 replaces its projections."""
    if precision == "int8":
        quantise(network)
    return network
