"""The parts of the network: embeddings, attention, feed-forward, residual, norm, dropout; initial values.

Modules draw initial values when they are constructed. On the meta device the draws need PyTorch's reference
implementations, whose import takes longer than the rest of the start; `meta_init` skips them.

Shapes: N sentences (slots), K hypotheses, T positions, Q queries, S keys, H heads, D head dim, M model dim.
"""

import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from model.config import Activation, NormForm, TransformerConfig
from model.errors import TextTooLongError
from model.network.decoder_state import StepView
from model.network.native_ops import Projection, add_dropped, attend_sentences, norm_beside
from model.network.positions import rotate, sinusoids
from model.network.triton_ops.layers import add_norm, embed

logger = logging.getLogger(__name__)

ACTIVATIONS: Mapping[Activation, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "gelu": nn.GELU,
    "gelu_tanh": partial(nn.GELU, "tanh"),
    "silu": nn.SiLU,
}
"""The native library has its own in model/native/src/kernels/activation.h."""


class Dropout(nn.Module):
    """Zeroes elements with probability `rate` while training and scales the others by 1 / (1 − rate)."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, states: Tensor) -> Tensor:
        """Any shape to the same shape."""
        if not self.training or self.rate == 0:
            return states
        dropped = add_dropped(None, states, self.rate)
        return functional.dropout(states, self.rate) if dropped is None else dropped

    def add(self, stream: Tensor, update: Tensor) -> Tensor:
        """The sum stream + dropout(update), both of the same shape."""
        total = add_dropped(stream, update, self.rate) if self.training else None
        return stream + self(update) if total is None else total


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
        state, weight = view.state, self.tokens.weight
        if not state.is_fused:
            return self._finish(ids_NK, view.added)
        scale = self.scale if self.config.scale_embeddings else 1.0
        states_NKM = embed(ids_NK, weight, scale, state.positions_N[: len(ids_NK)], state.tables.added_CM)
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


class JoinedProjection:
    """Several projections of the same states in one product; their parameters become parts of its own.

    The projections must not be moved or loaded anew afterwards.
    """

    def __init__(self, parts: Sequence[Projection]) -> None:
        self._sizes = [len(part.weight) for part in parts]
        self._weight, self._bias = torch.cat([part.weight for part in parts]).detach(), None
        _share(parts, "weight", self._weight, self._sizes)
        if parts[0].bias is not None:
            self._bias = torch.cat([part.bias for part in parts]).detach()
            _share(parts, "bias", self._bias, self._sizes)

    def __call__(self, states: Tensor) -> Sequence[Tensor]:
        """(…, I) to (…, O) for each projection."""
        together = functional.linear(states, self._weight, self._bias)
        return torch.split(together, self._sizes, -1)


def _share(parts: Sequence[Projection], name: str, joined: Tensor, sizes: Sequence[int]) -> None:
    for part, rows in zip(parts, joined.split(sizes), strict=True):
        setattr(part, name, nn.Parameter(rows, requires_grad=False))


def join(*parts: nn.Module) -> JoinedProjection | None:
    """Join projections of the same states; None if they are in int8."""
    projections = [part for part in parts if isinstance(part, Projection)]
    return JoinedProjection(projections) if len(projections) == len(parts) > 0 else None


class Attention(nn.Module):
    """Multi-head attention: softmax(s·QKᵀ)V for every head, s usually 1/√D; one projection joins heads."""

    def __init__(self, config: TransformerConfig, *, to_self: bool = False) -> None:
        super().__init__()
        dim, heads_dim, bias = config.model_dim, config.heads_dim, config.attention_bias
        self.num_heads, self.head_dim = config.num_heads, config.head_dim
        self.scale = config.attention_scale or 1 / math.sqrt(config.head_dim)
        self.dropout = Dropout(config.attention_dropout)
        self.query = Projection(dim, heads_dim, bias=bias)
        self.key_value = Projection(dim, 2 * heads_dim, bias=bias)  # fused: keys, then values
        self.output = Projection(heads_dim, dim, bias=bias)
        self.joined: JoinedProjection | None = None
        is_relative = to_self and config.positions == "relative_vectors"
        self.relative = RelativeVectors(config) if is_relative else None

    def forward(
        self,
        states_NQM: Tensor,
        sources_NSM: Tensor,
        mask: Tensor | None,
        *,
        causal: bool = False,
        rotations_2QD: Tensor | None = None,
        distances: Tensor | None = None,
        weights: list[Tensor] | None = None,
    ) -> Tensor:
        """(N, Q, M) of states that attend to sources, all positions at once; see `attend`."""
        queries, keys_values = self.query(states_NQM), self.key_value(sources_NSM)
        if self.training and weights is None and rotations_2QD is None and self.relative is None:
            joined = attend_sentences(
                queries,
                keys_values,
                self.num_heads,
                mask,
                causal=causal,
                rate=self.dropout.rate,
                scale=self.scale,
            )
            if joined is not None:
                return self.output(joined)  # type: ignore[no-any-return]
        queries, keys, values = map(self._split, (queries, *keys_values.chunk(2, -1)))
        if rotations_2QD is not None:
            queries, keys = rotate(queries, rotations_2QD), rotate(keys, rotations_2QD)
        return self.attend(queries, keys, values, mask, causal=causal, distances=distances, weights=weights)

    def queries(self, states: Tensor) -> Tensor:
        """(N, Q, M) to (N, H, Q, D)."""
        queries: Tensor = self.query(states)
        return self._split(queries)

    def keys_values(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """(N, S, M) to keys and values, (N, H, S, D) each."""
        return self.split_keys_values(self.key_value(states))

    def queries_keys_values(self, states: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(N, Q, M) to queries, keys and values of these states, (N, H, Q, D) each."""
        if self.joined is None:
            return self.queries(states), *self.keys_values(states)
        queries, keys_values = self.joined(states)
        return self._split(queries), *self.split_keys_values(keys_values)

    def split_keys_values(self, keys_values: Tensor) -> tuple[Tensor, Tensor]:
        """Projected keys and values (N, S, 2·H·D) to (N, H, S, D) each."""
        keys, values = keys_values.chunk(2, -1)
        return self._split(keys), self._split(values)

    def attend(
        self,
        queries_NHQD: Tensor,
        keys_NHSD: Tensor,
        values_NHSD: Tensor,
        mask: Tensor | None,
        *,
        causal: bool = False,
        distances: Tensor | None = None,
        weights: list[Tensor] | None = None,
    ) -> Tensor:
        """Joined heads (N, Q, M) of queries attending to keys.

        Args:
            queries_NHQD: Queries.
            keys_NHSD: Keys; their number may differ from the queries'.
            values_NHSD: Values.
            mask: Broadcasts to (N, H, Q, S): boolean, True = look, or a number added to the scores.
            causal: Query i sees keys 0…i.
            distances: Positions of keys less those of queries; broadcasts to (N, H, Q, S). Only relative
                vectors need them.
            weights: List to which the weights (N, H, Q, S) are appended; takes the explicit path.
        """
        relative = self.relative
        if relative is None and weights is None and not self._prefers_explicit_path(queries_NHQD):
            rate = self.dropout.rate if self.training else 0.0
            joined = functional.scaled_dot_product_attention(
                queries_NHQD, keys_NHSD, values_NHSD, mask, rate, is_causal=causal, scale=self.scale
            )
        else:
            scores = queries_NHQD @ keys_NHSD.transpose(-1, -2)
            rows_NHQS = None if relative is None or distances is None else relative.rows(distances, scores)
            if relative is not None and rows_NHQS is not None:
                scores = scores + relative.scores(queries_NHQD, rows_NHQS)
            weights_NHQS = masked_softmax(scores * self.scale, mask, causal=causal)
            if weights is not None:
                weights.append(weights_NHQS)
            weights_NHQS = self.dropout(weights_NHQS)
            joined = weights_NHQS @ values_NHSD
            if relative is not None and rows_NHQS is not None:
                joined = joined + relative.sums(weights_NHQS, rows_NHQS)
        result: Tensor = self.output(joined.transpose(1, 2).flatten(2))
        return result

    def _prefers_explicit_path(self, queries: Tensor) -> bool:
        if queries.device.type != "cpu":
            return False
        # In training, forward and backward of the fused kernel take up to 10 times as long (10 tokens,
        # bfloat16); in half precision it takes twice as long for many single queries.
        return self.training or (queries.dtype != torch.float32 and len(queries) >= 8 > queries.shape[2])

    def _split(self, states: Tensor) -> Tensor:
        heads: Tensor = states.unflatten(-1, (self.num_heads, self.head_dim))
        return heads.transpose(1, 2)


class RelativeVectors(nn.Module):
    """Vectors for the distances −k…k, added to keys and values; all heads share them.

    A query at position i attends to key j as K_j + R_K[clip(j − i)] with value V_j + R_V[clip(j − i)]
    (Shaw et al. 2018, https://arxiv.org/abs/1803.02155).
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.furthest = config.relative_max_distance
        self.keys = nn.Embedding(2 * self.furthest + 1, config.head_dim)
        self.values = nn.Embedding(2 * self.furthest + 1, config.head_dim)

    def rows(self, distances: Tensor, scores_NHQS: Tensor) -> Tensor:
        """The row of each query's and key's distance, (N, H, Q, S)."""
        rows = distances.clamp(-self.furthest, self.furthest) + self.furthest
        return rows.expand_as(scores_NHQS)

    def scores(self, queries_NHQD: Tensor, rows_NHQS: Tensor) -> Tensor:
        """Products (N, H, Q, S) of queries and the keys' vectors."""
        return (queries_NHQD @ self.keys.weight.T).gather(-1, rows_NHQS)

    def sums(self, weights_NHQS: Tensor, rows_NHQS: Tensor) -> Tensor:
        """Sums (N, H, Q, D) of the values' vectors, weighted by attention."""
        by_row = weights_NHQS.new_zeros(*weights_NHQS.shape[:-1], len(self.values.weight))
        return by_row.scatter_add(-1, rows_NHQS, weights_NHQS) @ self.values.weight


class SimpleRecurrentUnit(nn.Module):
    """The SSRU of Kim et al. 2019 (https://aclanthology.org/D19-5632), in place of self-attention.

    f = sigmoid(W_f x + b), c = f ⊙ c₋₁ + (1 − f) ⊙ W x with c = 0 before the first position; the output is
    relu(c). Cells are float32.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.forget = Projection(config.model_dim, config.model_dim)
        self.input = Projection(config.model_dim, config.model_dim, bias=False)

    def forward(self, states_NTM: Tensor) -> Tensor:
        """(N, T, M) to (N, T, M), all positions of sequences that begin with the first."""
        kept_NTM, new_NTM = self._terms(states_NTM)
        cells = [torch.zeros_like(new_NTM[:, 0])]
        for kept_NM, new_NM in zip(kept_NTM.unbind(1), new_NTM.unbind(1), strict=True):
            cells.append(kept_NM * cells[-1] + new_NM)
        return torch.stack(cells[1:], 1).relu().type_as(states_NTM)

    def step(self, states_NKM: Tensor, cells_NKM: Tensor) -> Tensor:
        """(N, K, M) at the next position to (N, K, M); the cells are changed in place."""
        kept_NKM, new_NKM = self._terms(states_NKM)
        cells_NKM.mul_(kept_NKM).add_(new_NKM)
        return cells_NKM.relu().type_as(states_NKM)

    def _terms(self, states: Tensor) -> tuple[Tensor, Tensor]:
        forget = self.forget(states).float().sigmoid()
        return forget, (1 - forget) * self.input(states).float()


class FeedForward(nn.Module):
    """W₂ · activation(W₁ · x), gated W₂ · (activation(W₁ · x) ⊙ W₃ · x): the same at every position."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        dim, inner, bias = config.model_dim, config.ffn_dim, config.ffn_bias
        self.input = Projection(dim, inner, bias=bias)
        self.gate = Projection(dim, inner, bias=bias) if config.gated_ffn else None
        self.activation = ACTIVATIONS[config.activation]()
        self.dropout = Dropout(config.ffn_dropout)
        self.output = Projection(inner, dim, bias=bias)

    def forward(self, states: Tensor) -> Tensor:
        """(…, M) to (…, M)."""
        inner = self.activation(self.input(states))
        if self.gate is not None:
            inner = inner * self.gate(states)
        result: Tensor = self.output(self.dropout(inner))
        return result

    def fused(self, states: Tensor) -> Tensor:
        """As `forward` without dropout; where the activation is ReLU, the product before it computes it."""
        product = self.input
        is_relu = isinstance(self.activation, nn.ReLU) and self.gate is None
        if not is_relu or not isinstance(product, nn.Linear) or product.bias is None:
            return self(states)  # type: ignore[no-any-return]
        inner = torch._addmm_activation(product.bias, states.flatten(0, -2), product.weight.t())
        result: Tensor = self.output(inner.unflatten(0, states.shape[:-1]))
        return result


class Residual(nn.Module):
    """A block and the residual stream: pre-norm x + f(norm(x)), post-norm norm(x + f(x))."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.is_pre, self.form = config.norm_position == "pre", config.norm_form
        self.norm = layer_norm(config)
        self.dropout = Dropout(config.residual_dropout)

    def forward(self, states: Tensor, block: Callable[[Tensor], Tensor]) -> Tensor:
        """(…, M) to (…, M); the stream itself is never normalised before the addition."""
        if not self.is_pre:
            result: Tensor = self.norm(self.dropout.add(states, block(states)))
            return result
        states, normed = self._norm_beside(states)
        return self.dropout.add(states, block(normed))

    def step(
        self, stream: Tensor, update: Tensor | None, block: Callable[[Tensor], Tensor], *, is_fused: bool
    ) -> tuple[Tensor, Tensor | None]:
        """As `forward` without dropout, but the last addition is left to the next norm, which may be fused.

        Args:
            stream: (…, M).
            update: To be added to it first; None for nothing.
            block: (…, M) to (…, M).
            is_fused: See `add_norm`.

        Returns:
            The stream, and what is to be added to it.
        """
        if self.is_pre:
            stream, normed = add_norm(stream, update, self.norm, self.form, is_fused=is_fused)
            return stream, block(normed)
        _, normed = add_norm(stream, block(stream), self.norm, self.form, is_fused=is_fused)
        return normed, None

    def _norm_beside(self, states: Tensor) -> tuple[Tensor, Tensor]:
        together = norm_beside(states, self.norm) if self.training else None
        return (states, self.norm(states)) if together is None else together


class StandardDeviationNorm(nn.Module):
    """γ · (x − mean) / (standard deviation + ε) + β, with Bessel's correction."""

    def __init__(self, dim: int, epsilon: float, *, bias: bool) -> None:
        super().__init__()
        self.epsilon = epsilon
        self.weight = nn.Parameter(torch.ones(dim))
        self.bias = nn.Parameter(torch.zeros(dim)) if bias else None

    def forward(self, states: Tensor) -> Tensor:
        """(…, M) to (…, M)."""
        normed = (self.weight * self._divided(states)).type_as(states)
        return normed if self.bias is None else normed + self.bias

    def _divided(self, states: Tensor) -> Tensor:
        deviation, mean = torch.std_mean(states.float(), -1, keepdim=True)
        return (states - mean) / (deviation + self.epsilon)


class RootMeanSquareNorm(StandardDeviationNorm):
    """γ · x / sqrt(mean(x²) + ε) + β (https://arxiv.org/abs/1910.07467)."""

    def _divided(self, states: Tensor) -> Tensor:
        return states * torch.rsqrt(states.float().square().mean(-1, keepdim=True) + self.epsilon)


def layer_norm(config: TransformerConfig, epsilon: float | None = None) -> nn.Module:
    """The layer norm that the configuration asks for (https://arxiv.org/abs/1607.06450)."""
    return _NORMS[config.norm_form](config.model_dim, epsilon or config.norm_epsilon, bias=config.norm_bias)


_NORMS: Mapping[NormForm, Callable[..., nn.Module]] = {
    "variance": nn.LayerNorm,
    "standard_deviation": StandardDeviationNorm,
    "root_mean_square": RootMeanSquareNorm,
}


def masked_softmax(scores: Tensor, mask: Tensor | None, *, causal: bool = False) -> Tensor:
    """Softmax over the keys of scores (N, H, Q, S) that a mask, see `Attention.attend`, leaves visible."""
    if causal:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
    if mask is not None:
        hidden = mask.dtype == torch.bool
        scores = scores.masked_fill(~mask, float("-inf")) if hidden else scores + mask
    return scores.softmax(-1)


def key_mask(mask_NS: Tensor) -> Tensor:
    """(N, S) → (N, 1, 1, S); a row without any real token sees all of its padding.

    A softmax over no position would be 0/0. The result of such a row is never used, but must be finite.
    """
    return (mask_NS | ~mask_NS.any(-1, keepdim=True))[:, None, None]


def choose_attention_kernels(device: torch.device | str) -> None:
    """Never use cuDNN's attention on a GPU, and log what is left; nothing happens on a CPU.

    cuDNN, PyTorch's first choice on Hopper in half precision, makes a plan for every new shape, which takes
    tenths of a second on the thread that decodes. The choice is for the whole process.
    """
    if torch.device(device).type != "cuda":
        return
    kernels = torch.backends.cuda
    kernels.enable_cudnn_sdp(False)
    used = {
        "flash": kernels.flash_sdp_enabled(),
        "memory-efficient": kernels.mem_efficient_sdp_enabled(),
        "math": kernels.math_sdp_enabled(),
        "cuDNN": kernels.cudnn_sdp_enabled(),
    }
    names = ", ".join(name for name, is_used in used.items() if is_used)
    logger.info("attention on %s by one of: %s", device, names)


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
