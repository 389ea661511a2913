"""What a network reads: a vector for each token and for its position.

Shapes: N sentences (slots), K hypotheses, T positions, M model dim.
"""

import math

import torch
from torch import Tensor, nn

from model.config import TransformerConfig
from model.errors import TextTooLongError
from model.network.decoder_state import StepView
from model.network.layers import Dropout, layer_norm
from model.network.positions import sinusoids
from model.network.triton_ops.stream import embed


class Embedding(nn.Module):
    """Tokens and their positions: dropout(norm?(scale · E[token] + P[position]))."""

    def __init__(self, rows: int, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.scale = math.sqrt(config.model_dim)
        self.tokens = nn.Embedding(rows, config.model_dim)
        if config.positions == "learned":
            self.positions = nn.Embedding(config.max_positions, config.model_dim)
        self.norm = (
            layer_norm(config, config.embedding_norm_epsilon) if config.embedding_norm else nn.Identity()
        )
        self.dropout = Dropout(config.embedding_dropout)

    def forward(self, ids_NT: Tensor) -> Tensor:
        """(N, T) ids to (N, T, M) states."""
        return self._finish(ids_NT, self.added_positions(ids_NT.shape[1], ids_NT.device))

    def step(self, ids_NK: Tensor, view: StepView) -> Tensor:
        """(N, K) ids at each slot's position to (N, K, M) states."""
        if view.tables is None:
            return self._finish(ids_NK, view.added)
        scale = self.scale if self.config.scale_embeddings else 1.0
        states_NKM = embed(ids_NK, self.tokens.weight, scale, view.tables.positions_N, view.position_table)
        return self.norm(states_NKM)  # type: ignore[no-any-return]

    def _finish(self, ids: Tensor, added: Tensor | None) -> Tensor:
        states: Tensor = self.tokens(ids)
        if self.config.scale_embeddings:
            states = states * self.scale
        if added is not None:
            states = states + added
        result: Tensor = self.dropout(self.norm(states))
        return result

    def added_positions(self, length: int, device: torch.device) -> Tensor | None:
        """Returns the vectors of positions 0…length−1, (length, M); None where order enters in the attention.

        Raises:
            TextTooLongError: If positions are learned and there are fewer of them.
        """
        config = self.config
        if config.positions == "learned":
            if length > config.max_positions:
                raise TextTooLongError("sequence", "max_positions", config.max_positions, length)
            return self.positions.weight[:length]
        if config.positions == "sinusoidal":
            table = sinusoids(
                torch.arange(length, device=device) + config.sinusoid_offset,
                config.model_dim,
                halves=config.sinusoid_layout == "halves",
                endpoint=config.sinusoid_endpoint,
            )
            return table.to(self.tokens.weight.dtype)
        return None
