"""The whole network, top to bottom: embed, encode, decode, project; and the one-token step.

`forward` is the training path, `decode_step` the cached path; they give the same logits.
A mask is True where attention may look, everywhere in this project.

Shapes: N sentences (slots), K hypotheses of a sentence, S source, T target positions, Q queries, H heads,
D head dim, M model dim, V vocabulary, R rows (slots × hypotheses).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import cast

import torch
from torch import Tensor, nn

from model.config import TransformerConfig
from model.errors import ConfigError, TextTooLongError
from model.network.decoder_state import (
    DecoderState,
    EncoderOutput,
    KeyValuePool,
    LayerPool,
    PositionTables,
    StepShape,
    StepView,
)
from model.network.layers import (
    Attention,
    Embedding,
    FeedForward,
    JoinedProjection,
    Residual,
    SimpleRecurrentUnit,
    initialise,
    join,
    key_mask,
    layer_norm,
    meta_init,
)
from model.network.native_ops import Projection
from model.network.parameters import count_parameters, parameter_names, parameter_shapes
from model.network.positions import relative_bucket, rotate, rotations
from model.network.triton_ops.choice import Forbidden, likeliest_tokens
from model.network.triton_ops.layers import add_norm, attend_to_self, attend_to_source
from model.validators import require, require_given, require_integer, require_number


@dataclass
class AttentionMaps:
    """Attention weights of one forward pass, one tensor (N, H, queries, keys) per layer; rows sum to 1."""

    encoder: list[Tensor] = field(default_factory=list)
    decoder: list[Tensor] = field(default_factory=list)
    cross: list[Tensor] = field(default_factory=list)


class Transformer(nn.Module):
    """An encoder-decoder, an encoder alone or a decoder alone, as its configuration says.

    Attributes:
        config: As given.
        state_dtype: Type that keys and values are stored in; None for the type of the weights.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.state_dtype: torch.dtype | None = None
        rows = config.padded(config.source_vocab_size), config.padded(config.target_vocab_size)
        if config.num_encoder_layers:
            self.source_embedding = Embedding(rows[0], config)
            self.encoder = Stack(config, config.num_encoder_layers, causal=False)
        if config.num_decoder_layers:
            self.target_embedding = Embedding(rows[1], config)
            self.decoder = Stack(config, config.num_decoder_layers, causal=True)
            self.output = Projection(config.model_dim, rows[1], bias=config.output_bias)
        initialise(self, config)
        self.tie_weights()

    def tie_weights(self) -> None:
        """Make tied tensors one tensor again, for example after loading."""
        tie = self.config.tie
        if tie == "none" or not self.config.num_decoder_layers:
            return
        if tie != "embeddings":
            self.output.weight = self.target_embedding.tokens.weight
        if tie != "decoder" and self.config.num_encoder_layers:
            self.source_embedding.tokens.weight = self.target_embedding.tokens.weight

    def forward(
        self, source_NS: Tensor | None, target_NT: Tensor | None = None, maps: AttentionMaps | None = None
    ) -> Tensor:
        """Logits of every next target token, all positions at once (teacher forcing).

        Args:
            source_NS: Source ids, padded with `pad_id`; None for a decoder alone.
            target_NT: Decoder input: start token, then the target so far; padded on the right. None for an
                encoder alone.
            maps: Collects attention weights, by the explicit path.

        Returns:
            Shape (N, T, V); V is `target_vocab_size`, rows added to fill a multiple are left out. For an
            encoder alone its states, (N, S, M).

        Raises:
            ConfigError: If the network has a decoder but there is no target, or the reverse; or if it has an
                encoder but there is no source.
        """
        states = self.states(source_NS, target_NT, maps)
        return states if target_NT is None else self.project(states)

    def states(
        self, source_NS: Tensor | None, target_NT: Tensor | None = None, maps: AttentionMaps | None = None
    ) -> Tensor:
        """What `forward` projects to logits, (N, T, M), or returns for an encoder alone."""
        encoder_output = None if source_NS is None else self.encode(source_NS, maps)
        has_decoder = self.config.num_decoder_layers > 0
        require_given(
            target_NT is not None or not has_decoder, "target_NT", "given for a network with a decoder"
        )
        require(target_NT is None or has_decoder, "target_NT", "None for an encoder alone", "given")
        if target_NT is None:
            return required_source(encoder_output).states_NSM
        return self.decode(target_NT, encoder_output, maps)

    def forward_with_attention(
        self, source_NS: Tensor | None, target_NT: Tensor
    ) -> tuple[Tensor, AttentionMaps]:
        """Logits as `forward` gives them, and every layer's attention weights."""
        maps = AttentionMaps()
        return self(source_NS, target_NT, maps), maps

    def encode(self, source_NS: Tensor, maps: AttentionMaps | None = None) -> EncoderOutput:
        """Encoder states of padded source ids; padding influences nothing."""
        mask_NS = source_NS != self.config.pad_id
        states = self.source_embedding(source_NS)
        states = self.encoder(states, mask_NS, None, maps)
        return EncoderOutput(states, mask_NS)

    def decode(
        self, target_NT: Tensor, encoder_output: EncoderOutput | None, maps: AttentionMaps | None = None
    ) -> Tensor:
        """Decoder states (N, T, M) of all target positions at once.

        Targets are padded on the right, so that the causal mask already hides the padding from
        every real position.
        """
        states: Tensor = self.decoder(self.target_embedding(target_NT), None, encoder_output, maps)
        return states

    def project(self, states: Tensor) -> Tensor:
        """Logits (…, V) of decoder states (…, M)."""
        scale = self.config.logit_scale
        logits: Tensor = self.output(states if scale == 1 else states * scale)
        return logits[..., : self.config.target_vocab_size]

    def new_pool(self, num_kv_slots: int) -> KeyValuePool:
        """Memory for the keys and values of `num_kv_slots` positions, on the device of the weights."""
        like, config = self.target_embedding.tokens.weight, self.config
        sizes = config.num_decoder_layers, num_kv_slots, config.num_heads, config.head_dim
        cells = (config.num_decoder_layers, config.model_dim) if self.decoder.is_recurrent else (0, 0)
        return KeyValuePool(*sizes, like, self.state_dtype, cell_shape=cells)

    def position_tables(self, capacity: int) -> PositionTables:
        """What positions 0…capacity−1 add, or how they rotate.

        Raises:
            TextTooLongError: If there are fewer learned positions than `capacity`.
        """
        weight = self.target_embedding.tokens.weight
        return PositionTables(
            added_CM=self.target_embedding.added_positions(capacity, weight.device),
            rotations_2CD=self.decoder.rotations(capacity, weight.device),
            distance_bias_HC=self.decoder.distance_bias(capacity, weight.dtype),
        )

    def cache_source(self, encoder_output: EncoderOutput, state: DecoderState, slots_N: Tensor) -> None:
        """Project the keys and values of sources, once, into the slots assigned to them."""
        kv_slots_E = state.source_kv_slots(slots_N, encoder_output.states_NSM.shape[1])
        for pool, (keys_NHSD, values_NHSD) in zip(
            state.pool.layers, self.decoder.source_keys_values(encoder_output.states_NSM), strict=True
        ):
            pool.write(kv_slots_E, rows_of(keys_NHSD), rows_of(values_NHSD))

    def decode_step(
        self,
        tokens_NK: Tensor,
        state: DecoderState,
        shape: StepShape | None = None,
        *,
        attention: list[Tensor] | None = None,
    ) -> Tensor:
        """Logits after one more token in every hypothesis; those of these slots that are live advance.

        Args:
            tokens_NK: The last token of each hypothesis; `decoder_start_id` at position 0.
            state: Written in place.
            shape: How much of the state to look at; None computes it, so the host waits for the device.
            attention: List to which the weights (N, K, S) over the source are appended: last layer,
                averaged over heads.

        Returns:
            Shape (N, K, V).

        Raises:
            TextTooLongError: If the state is full.
        """
        shape = shape or state.exact_shape()
        states_NKM = self.decode_states(tokens_NK, state, shape, attention=attention)
        state.positions_N[: shape.slots].add_(state.is_live_N[: shape.slots])
        return self.project(states_NKM)

    def decode_states(
        self,
        tokens_NK: Tensor,
        state: DecoderState,
        shape: StepShape,
        *,
        attention: list[Tensor] | None = None,
    ) -> Tensor:
        """What `decode_step` projects to logits, (N, K, M); the caller has the slots advance."""
        if shape.length > state.capacity:
            raise TextTooLongError("target", "capacity", state.capacity, shape.length)
        view = StepView(state, shape)
        states_NKM = self.target_embedding.step(tokens_NK, view)
        return self.decoder.step(states_NKM, view, state.pool, attention)

    @property
    def has_likeliest_tokens(self) -> bool:
        """Returns whether `likeliest_tokens` can be called: not with int8 weights."""
        return isinstance(self.output, nn.Linear)

    def likeliest_tokens(self, states_NKM: Tensor, forbidden: Forbidden, top: int) -> tuple[Tensor, Tensor]:
        """Log-probabilities and ids of each hypothesis' T likeliest tokens, (N, K, T) each, by Triton."""
        output, scale = self.output, self.config.logit_scale
        found = likeliest_tokens(states_NKM.flatten(0, 1), output.weight, output.bias, scale, forbidden, top)
        log_probs_NKT, tokens_NKT = (each_RT.unflatten(0, states_NKM.shape[:2]) for each_RT in found)
        return log_probs_NKT, tokens_NKT

    @torch.no_grad()
    def generate(
        self,
        source_NS: Tensor | None,
        prompt_NT: Tensor | None = None,
        *,
        max_new_tokens: int,
        temperature: float = 1.0,
        top_k: int = 0,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Sampled target tokens, for experiments: every step computes the whole target anew.

        The network must be in evaluation mode, so that dropout draws nothing.

        Args:
            source_NS: Source ids, padded with `pad_id`; None for a decoder alone.
            prompt_NT: Target tokens to continue, without start token; None for none.
            max_new_tokens: Longest continuation.
            temperature: Divides the logits; above 0.
            top_k: Choose among as many of the likeliest tokens; 1 is greedy, 0 chooses among all.
            generator: Draws the tokens; None for torch's global generator.

        Returns:
            The continuations, (N, at most `max_new_tokens`), filled with `pad_id` after EOS.

        Raises:
            ConfigError: If a value is out of range, or there is neither source nor prompt.
            TextTooLongError: If the target gets longer than learned positions.
        """
        require_integer("max_new_tokens", max_new_tokens, 1)
        require_number("temperature", temperature, 0, open_minimum=True)
        require_integer("top_k", top_k, 0)
        given_ids = source_NS if prompt_NT is None else prompt_NT
        if given_ids is None:
            raise ConfigError("prompt_NT", "given where there is no source", None, is_missing=True)
        config, slots = self.config, len(given_ids)
        encoder_output = None if source_NS is None else self.encode(source_NS)
        target_NT = given_ids.new_full((slots, 1), config.decoder_start_id)
        if prompt_NT is not None:
            target_NT = torch.cat([target_NT, prompt_NT], 1)
        first, is_done_N1 = target_NT.shape[1], torch.zeros_like(target_NT[:, :1], dtype=torch.bool)
        while target_NT.shape[1] < first + max_new_tokens and not is_done_N1.all():
            logits_NV = self.project(self.decode(target_NT, encoder_output)[:, -1]) / temperature
            logits_NV[:, config.never_produced()] = float("-inf")
            if top_k:
                smallest_N1 = logits_NV.topk(min(top_k, logits_NV.shape[1])).values[:, -1:]
                logits_NV[logits_NV < smallest_N1] = float("-inf")
            chosen_N1 = torch.multinomial(logits_NV.softmax(-1), 1, generator=generator)
            target_NT = torch.cat([target_NT, chosen_N1.masked_fill(is_done_N1, config.pad_id)], 1)
            is_done_N1 |= chosen_N1 == config.eos_id
        return target_NT[:, first:]

    def with_max_positions(self, max_positions: int) -> "Transformer":
        """A copy for shorter sequences, without the learned positions from `max_positions` on.

        Raises:
            ConfigError: If `max_positions` is below 1 or above the network's.
        """
        require_integer("max_positions", max_positions, 1, self.config.max_positions)
        with meta_init():
            shorter = Transformer(replace(self.config, max_positions=max_positions))
        shapes = parameter_shapes(shorter.config)
        names = parameter_names(shorter.config)
        tensors = {
            name: tensor[: shapes[names[name]][0]].clone() for name, tensor in self.state_dict().items()
        }
        shorter.load_state_dict(tensors, assign=True)
        shorter.tie_weights()
        shorter.state_dtype = self.state_dtype
        return shorter.train(self.training)

    def num_parameters(self, *, embeddings: bool = True) -> int:
        """Parameters, tied ones counted once; without `embeddings`, those of the layers alone."""
        shapes = {name: tuple(parameter.shape) for name, parameter in self.named_parameters()}
        return count_parameters(shapes, embeddings=embeddings)


@dataclass(frozen=True)
class SequenceView:
    """What the queries of a self-attention over whole sequences may see, the same for every layer.

    Attributes:
        mask: Boolean (True = look) or added to the scores; None where only causality limits.
        causal: Query i sees keys 0…i; not used together with a mask.
        rotations_2QD: Rotations of queries and keys.
        distances_QS: Positions of keys less those of queries.
    """

    mask: Tensor | None
    causal: bool
    rotations_2QD: Tensor | None
    distances_QS: Tensor


class Stack(nn.Module):
    """Layers of one kind, the positions they share and a last norm."""

    def __init__(self, config: TransformerConfig, depth: int, *, causal: bool) -> None:
        super().__init__()
        self.config = config
        self.causal = causal
        self.is_recurrent = causal and config.decoder_memory == "ssru"
        has_source = causal and config.num_encoder_layers > 0
        layers = (Layer(config, causal=causal, has_source=has_source) for _ in range(depth))
        self.layers = cast(Sequence[Layer], nn.ModuleList(layers))
        self.norm = layer_norm(config) if config.final_norm else nn.Identity()
        self.joined_sources: JoinedProjection | None = None
        self.is_biased = config.positions == "relative" and not self.is_recurrent
        if self.is_biased:
            self.relative_bias = nn.Embedding(config.relative_buckets, config.num_heads)

    def forward(
        self,
        states: Tensor,
        mask_NT: Tensor | None,
        encoder_output: EncoderOutput | None,
        maps: AttentionMaps | None,
    ) -> Tensor:
        """(N, T, M) to (N, T, M); `mask_NT` is True where a token is real, None where all are."""
        view = self._view(states, mask_NT)
        for layer in self.layers:
            if not self._is_dropped():
                states = layer(states, view, encoder_output, maps)
        result: Tensor = self.norm(states)
        return result

    def join_projections(self) -> None:
        """Compute queries, keys and values of a layer in one product, and those of all sources, too.

        Products take less time then on a GPU. What the network computes, and its `state_dict()`, stay equal.
        It must not be trained, moved or loaded anew afterwards.
        """
        for layer in self.layers:
            if not self.is_recurrent:
                layer.attention.joined = join(layer.attention.query, layer.attention.key_value)
        self.joined_sources = join(*(layer.cross.key_value for layer in self.layers if layer.has_source))

    def source_keys_values(self, states_NSM: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Keys and values of encoder states for each layer, (N, H, S, D) each."""
        if self.joined_sources is None:
            return [layer.cross.keys_values(states_NSM) for layer in self.layers]
        together = self.joined_sources(states_NSM)
        pairs = zip(self.layers, together, strict=True)
        return [layer.cross.split_keys_values(own) for layer, own in pairs]

    def step(
        self, states_NKM: Tensor, view: StepView, pool: KeyValuePool, attention: list[Tensor] | None
    ) -> Tensor:
        """(N, K, M) at each slot's position to (N, K, M)."""
        weights: list[Tensor] | None = None if attention is None else []
        last, update = len(self.layers) - 1, None
        for i, layer in enumerate(self.layers):
            kept = weights if i == last else None
            states_NKM, update = layer.step(states_NKM, update, view, i, pool.layers[i], kept)
        if attention is not None:
            attention += [weights_NHKS.mean(1) for weights_NHKS in weights or ()]
        if isinstance(self.norm, nn.Identity):
            return states_NKM if update is None else states_NKM + update
        is_fused = view.state.is_fused
        return add_norm(states_NKM, update, self.norm, self.config.norm_form, is_fused=is_fused)[1]

    def rotations(self, length: int, device: torch.device) -> Tensor | None:
        """Rotations of positions 0…length−1; None for other kinds of position."""
        if self.config.positions != "rotary":
            return None
        return rotations(torch.arange(length, device=device), self.config.head_dim)

    def distance_bias(self, length: int, dtype: torch.dtype) -> Tensor | None:
        """Bias (H, length) of the keys 0…length−1 positions before the query; None for other kinds."""
        if not self.is_biased:
            return None
        distances = -torch.arange(length, device=self.relative_bias.weight.device)
        return self._bias_of(distances).to(dtype).contiguous()

    def _view(self, states: Tensor, mask_NT: Tensor | None) -> SequenceView:
        length, device = states.shape[1], states.device
        mask = None if mask_NT is None else key_mask(mask_NT)
        rotations_ = self.rotations(length, device)
        positions = torch.arange(length, device=device)
        distances_QS = positions[None, :] - positions[:, None]
        if not self.is_biased:
            return SequenceView(mask, self.causal and mask is None, rotations_, distances_QS)
        bias = self._bias_of(distances_QS).to(states.dtype)[None]
        if self.causal:
            mask = torch.ones(length, length, dtype=torch.bool, device=device).tril()
        return SequenceView(
            bias if mask is None else bias.masked_fill(~mask, float("-inf")),
            causal=False,
            rotations_2QD=rotations_,
            distances_QS=distances_QS,
        )

    def _bias_of(self, distances: Tensor) -> Tensor:
        buckets = relative_bucket(
            distances,
            buckets=self.config.relative_buckets,
            max_distance=self.config.relative_max_distance,
            bidirectional=not self.causal,
        )
        bias: Tensor = self.relative_bias(buckets)
        return bias.movedim(-1, 0)

    def _is_dropped(self) -> bool:
        return self.training and self.config.layer_drop > 0 and float(torch.rand(())) < self.config.layer_drop


class Layer(nn.Module):
    """Self-attention or a recurrent cell, attention to the source, feed-forward; each in a residual."""

    def __init__(self, config: TransformerConfig, *, causal: bool, has_source: bool) -> None:
        super().__init__()
        self.causal = causal
        self.has_source = has_source
        self.is_recurrent = causal and config.decoder_memory == "ssru"
        if self.is_recurrent:
            self.ssru = SimpleRecurrentUnit(config)
        else:
            self.attention = Attention(config, to_self=True)
        self.attention_residual = Residual(config)
        if has_source:
            self.cross = Attention(config)
            self.cross_residual = Residual(config)
        self.feed_forward = FeedForward(config)
        self.feed_forward_residual = Residual(config)

    def forward(
        self,
        states: Tensor,
        view: SequenceView,
        encoder_output: EncoderOutput | None,
        maps: AttentionMaps | None,
    ) -> Tensor:
        """(N, T, M) to (N, T, M), all positions at once."""
        kept = (None, None) if maps is None else (maps.decoder if self.causal else maps.encoder, maps.cross)
        states = self.attention_residual(states, lambda x: self._attend_to_self(x, view, kept[0]))
        if self.has_source:
            source = required_source(encoder_output)
            states = self.cross_residual(states, lambda x: self._attend_to_source(x, source, kept[1]))
        result: Tensor = self.feed_forward_residual(states, self.feed_forward)
        return result

    def _attend_to_self(self, states: Tensor, view: SequenceView, weights: list[Tensor] | None) -> Tensor:
        if self.is_recurrent:
            return self.ssru(states)  # type: ignore[no-any-return]
        attended: Tensor = self.attention(
            states,
            states,
            view.mask,
            causal=view.causal,
            rotations_2QD=view.rotations_2QD,
            distances=view.distances_QS,
            weights=weights,
        )
        return attended

    def _attend_to_source(
        self, states: Tensor, encoder_output: EncoderOutput, weights: list[Tensor] | None
    ) -> Tensor:
        mask = key_mask(encoder_output.mask_NS)
        attended: Tensor = self.cross(states, encoder_output.states_NSM, mask, weights=weights)
        return attended

    def step(
        self,
        states_NKM: Tensor,
        update_NKM: Tensor | None,
        view: StepView,
        index: int,
        pool: LayerPool,
        weights: list[Tensor] | None,
    ) -> tuple[Tensor, Tensor | None]:
        """The residual stream at each slot's position, and what is to be added to it, (N, K, M) each.

        Args:
            states_NKM: Stream that the layer before returned.
            update_NKM: What is to be added to it; None for nothing.
            view: What the step reads and where it writes.
            index: Number of this layer.
            pool: Keys and values of this layer.
            weights: Collects the attention weights over the source.
        """
        is_fused = view.state.is_fused

        def remember(states_NKM: Tensor) -> Tensor:
            if self.is_recurrent:
                return self.ssru.step(states_NKM, view.cells_NKLM[:, :, index])
            return self._step_self(states_NKM, view, pool)

        stream = self.attention_residual.step(states_NKM, update_NKM, remember, is_fused=is_fused)
        if view.has_source:
            attend = partial(self._step_source, view=view, pool=pool, weights=weights)
            stream = self.cross_residual.step(*stream, attend, is_fused=is_fused)
        feed_forward = self.feed_forward.fused if is_fused else self.feed_forward
        return self.feed_forward_residual.step(*stream, feed_forward, is_fused=is_fused)

    def _step_self(self, states_NKM: Tensor, view: StepView, pool: LayerPool) -> Tensor:
        queries, keys, values = self.attention.queries_keys_values(states_NKM)
        if (rotations_2N11D := view.rotations) is not None:
            queries, keys = rotate(queries, rotations_2N11D), rotate(keys, rotations_2N11D)
        if view.state.is_fused:
            rows = rows_of(queries), rows_of(keys), rows_of(values)
            joined = attend_to_self(*rows, pool.tensors, view.state, self.attention.scale)
            return self.attention.output(joined.unflatten(0, states_NKM.shape[:2]))  # type: ignore[no-any-return]
        pool.write(view.written_kv_slots, rows_of(keys), rows_of(values))
        keys, values = pool.read(view.target_kv_slots)
        queries_RH1D = rows_of(queries)[:, :, None]
        attended = self.attention.attend(
            queries_RH1D, keys, values, view.target_mask, distances=view.target_distances
        )
        return attended.view_as(states_NKM)

    def _step_source(
        self, states_NKM: Tensor, view: StepView, pool: LayerPool, weights: list[Tensor] | None
    ) -> Tensor:
        queries = self.cross.queries(states_NKM)  # the hypotheses of a slot are queries of one attention
        if view.state.is_fused and weights is None:
            joined = attend_to_source(rows_of(queries), pool.tensors, view.state, self.cross.scale)
            return self.cross.output(joined.unflatten(0, states_NKM.shape[:2]))  # type: ignore[no-any-return]
        keys, values = pool.read(view.source_kv_slots)
        return self.cross.attend(queries, keys, values, view.source_mask, weights=weights)


def rows_of(states_NHKD: Tensor) -> Tensor:
    """Queries, keys or values of all hypotheses as rows (R, H, D)."""
    return states_NHKD.transpose(1, 2).flatten(0, 1)


def required_source(encoder_output: EncoderOutput | None) -> EncoderOutput:
    """The encoded source.

    Raises:
        ConfigError: If there is none, although the network has an encoder.
    """
    if encoder_output is None:
        raise ConfigError("encoder_output", "given for an encoder-decoder", None, is_missing=True)
    return encoder_output
