"""⑤ What decoding asks of a network; the Transformer and every faster form of it fit."""

from typing import Protocol

from torch import Tensor

from model.config import TransformerConfig
from model.state import DecoderState, Memory


class Network(Protocol):
    """An encoder-decoder in evaluation mode. Shapes: N slots, K lanes, S source, T target, V vocabulary."""

    @property
    def config(self) -> TransformerConfig:
        """Vocabulary sizes, special ids, limits."""

    def __call__(self, source_NS: Tensor, target_NT: Tensor, /) -> Tensor:
        """Logits (N, T, V) of all target positions at once."""

    def encode(self, source_NS: Tensor, /) -> Memory:
        """Encoder states of padded source ids."""

    def start(self, memory: Memory, /, *, lanes: int, capacity: int) -> DecoderState:
        """A state for `capacity` positions of `lanes` hypotheses a sentence."""

    def decode_step(
        self, tokens_NK: Tensor, state: DecoderState, /, *, return_attention: bool = False
    ) -> Tensor:
        """Logits (N, K, V) after one more token in every lane."""
