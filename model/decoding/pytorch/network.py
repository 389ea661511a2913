"""⑤ What decoding asks of a network; the Transformer and every faster form of it fit."""

from typing import Protocol

from torch import Tensor

from model.config import TransformerConfig
from model.state import DecoderState, Extent, KeyValuePool, Memory, PositionTables


class Network(Protocol):
    """An encoder-decoder in evaluation mode. Shapes: N slots, K lanes, S source, T target, V vocabulary."""

    @property
    def config(self) -> TransformerConfig:
        """Vocabulary sizes, special ids, limits."""

    def __call__(self, source_NS: Tensor, target_NT: Tensor, /) -> Tensor:
        """Logits (N, T, V) of all target positions at once."""

    def encode(self, source_NS: Tensor, /) -> Memory:
        """Encoder states of padded source ids."""

    def new_pool(self, entries: int, /) -> KeyValuePool:
        """Memory for so many positions of the decoder."""

    def position_tables(self, capacity: int, /) -> PositionTables:
        """What positions 0…capacity−1 add or turn."""

    def remember(self, memory: Memory, state: DecoderState, slots_N: Tensor, /) -> None:
        """Project the keys and values of sources, once, into the slots where they are seated."""

    def decode_step(
        self,
        tokens_NK: Tensor,
        state: DecoderState,
        extent: Extent,
        /,
        *,
        attention: list[Tensor] | None = None,
    ) -> Tensor:
        """Logits (N, K, V) after one more token in every lane; `attention` collects (N, K, S)."""
