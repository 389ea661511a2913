"""⑤ From the host to the device, without making either wait."""

from collections.abc import Sequence

import torch
from torch import Tensor


def to_device(values: Sequence[int] | Tensor, device: torch.device) -> Tensor:
    """Whole numbers, or a tensor, on a device; a GPU fetches them when it gets there."""
    tensor = values if isinstance(values, Tensor) else torch.tensor(values, dtype=torch.int64)
    if device.type == "cuda" and tensor.device.type == "cpu":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)
