"""Names and shapes of a Transformer's parameters, from its configuration alone. No torch.

They equal those of `model.network.transformer`, in its order; a test compares the two. So a checkpoint can
be checked, and passed to the native library, without building a network.
"""

import math
from collections.abc import Iterator, Mapping, Sequence

from model.config import TransformerConfig

Shape = tuple[int, ...]
Named = Iterator[tuple[str, Shape]]

_OUTPUT = "output.weight"
_TARGET = "target_embedding.tokens.weight"
_SOURCE = "source_embedding.tokens.weight"


def parameter_shapes(config: TransformerConfig) -> dict[str, Shape]:
    """Shape of every parameter by name; tied parameters appear under their first name only."""
    shapes = dict(_all(config))
    return {name: shapes[name] for name, first in parameter_names(config).items() if name == first}


def parameter_names(config: TransformerConfig) -> dict[str, str]:
    """Every name of every parameter → the first name of the same parameter; tied ones have several."""
    first = {name: name for name, _ in _all(config)}
    if config.tie == "none" or not config.num_decoder_layers:
        return first
    shared = _SOURCE if config.tie != "decoder" and config.num_encoder_layers else _TARGET
    return first | {_TARGET: shared} | ({} if config.tie == "embeddings" else {_OUTPUT: shared})


def count_parameters(shapes: Mapping[str, Shape], *, embeddings: bool = True) -> int:
    """Parameters, tied ones counted once; without `embeddings`, those of the layers alone."""
    skipped = () if embeddings else ("source_embedding.", "target_embedding.", "output.")
    return sum(math.prod(shape) for name, shape in shapes.items() if not name.startswith(skipped))


def _all(config: TransformerConfig) -> Named:
    source, target = config.padded(config.source_vocab_size), config.padded(config.target_vocab_size)
    if config.num_encoder_layers:
        yield from _within("source_embedding", _embedding(config, source))
        yield from _within("encoder", _stack(config, config.num_encoder_layers))
    if config.num_decoder_layers:
        yield from _within("target_embedding", _embedding(config, target))
        yield from _within("decoder", _stack(config, config.num_decoder_layers, is_decoder=True))
        yield from _linear("output", config.model_dim, target, bias=config.output_bias)


def _embedding(config: TransformerConfig, rows: int) -> Named:
    yield "tokens.weight", (rows, config.model_dim)
    if config.positions == "learned":
        yield "positions.weight", (config.max_positions, config.model_dim)
    if config.embedding_norm:
        yield from _norm("norm", config)


def _stack(config: TransformerConfig, depth: int, *, is_decoder: bool = False) -> Named:
    has_cell = is_decoder and config.decoder_memory == "ssru"
    blocks = ["ssru" if has_cell else "attention"]
    if is_decoder and config.num_encoder_layers:
        blocks.append("cross")
    for layer in range(depth):
        yield from _within(f"layers.{layer}", _layer(config, blocks))
    if config.final_norm:
        yield from _norm("norm", config)
    if config.positions == "relative" and not has_cell:
        yield "relative_bias.weight", (config.relative_buckets, config.num_heads)


def _layer(config: TransformerConfig, blocks: Sequence[str]) -> Named:
    for block in blocks:
        yield from _within(block, _ssru(config) if block == "ssru" else _attention(config))
        if block == "attention" and config.positions == "relative_vectors":
            shape = 2 * config.relative_max_distance + 1, config.head_dim
            yield from ((f"attention.relative.{part}.weight", shape) for part in ("keys", "values"))
        yield from _norm(f"{'cross' if block == 'cross' else 'attention'}_residual.norm", config)
    dim, inner, bias = config.model_dim, config.ffn_dim, config.ffn_bias
    yield from _linear("feed_forward.input", dim, inner, bias=bias)
    if config.gated_ffn:
        yield from _linear("feed_forward.gate", dim, inner, bias=bias)
    yield from _linear("feed_forward.output", inner, dim, bias=bias)
    yield from _norm("feed_forward_residual.norm", config)


def _attention(config: TransformerConfig) -> Named:
    dim, heads, bias = config.model_dim, config.heads_dim, config.attention_bias
    yield from _linear("query", dim, heads, bias=bias)
    yield from _linear("key_value", dim, 2 * heads, bias=bias)
    yield from _linear("output", heads, dim, bias=bias)


def _ssru(config: TransformerConfig) -> Named:
    yield from _linear("forget", config.model_dim, config.model_dim, bias=True)
    yield from _linear("input", config.model_dim, config.model_dim, bias=False)


def _norm(name: str, config: TransformerConfig) -> Named:
    yield f"{name}.weight", (config.model_dim,)
    if config.norm_bias:
        yield f"{name}.bias", (config.model_dim,)


def _linear(name: str, inputs: int, outputs: int, *, bias: bool) -> Named:
    yield f"{name}.weight", (outputs, inputs)
    if bias:
        yield f"{name}.bias", (outputs,)


def _within(name: str, parameters: Named) -> Named:
    return ((f"{name}.{inner}", shape) for inner, shape in parameters)
