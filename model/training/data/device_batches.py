"""ⓔ Batches on the device, the next one on its way while the current one is worked on."""

from collections.abc import Mapping
from typing import Any, Self

import torch

from model.training.data.batches import Batch, BatchStream


class DeviceBatches:
    """A stream of batches on a device.

    On CUDA one batch is copied ahead, from page-locked memory, while the GPU works on the one
    before; the position still counts only what was handed out.

    Args:
        stream: Batches in CPU memory.
        device: Where they are needed.

    Attributes:
        epoch: Passes over the data that were handed out, with the share of the current one.
    """

    def __init__(self, stream: BatchStream, device: torch.device) -> None:
        self._stream = stream
        self._device = device
        self._position = stream.state_dict()
        self._ahead: tuple[Batch, dict[str, Any]] | None = None
        self.epoch = 0.0

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Batch:
        batch, self._position = self._ahead or self._fetch()
        self._ahead = self._fetch() if self._device.type == "cuda" else None
        self.epoch = batch.epoch + (batch.index + 1) / self._stream.num_batches(batch.epoch)
        return batch

    def _fetch(self) -> tuple[Batch, dict[str, Any]]:
        batch = next(self._stream)
        if self._device.type == "cuda":
            batch = batch.pin_memory().to(self._device)
        return batch, self._stream.state_dict()

    def state_dict(self) -> dict[str, Any]:
        """Position after the last batch handed out."""
        return self._position

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go to such a position."""
        self._stream.load_state_dict(state)
        self._position = self._stream.state_dict()
        self._ahead = None

    def close(self) -> None:
        """End what runs in the background."""
        self._stream.close()
