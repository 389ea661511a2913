"""⑤ Token ids of different lengths as one matrix."""

from collections.abc import Sequence

import torch
from torch import Tensor

from model.decoding.pytorch.transfer import to_device


def pad_rows(rows: Sequence[Sequence[int]], pad_id: int, device: torch.device) -> Tensor:
    """Rows of different lengths as one matrix, padded on the right."""
    width = max(map(len, rows))
    return to_device(torch.tensor([[*row, *[pad_id] * (width - len(row))] for row in rows]), device)
