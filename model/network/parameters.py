"""Names and shapes of a Transformer's parameters, from its configuration alone. No torch.

They equal those of `model.network.transformer`, in its order; a test compares the two. So a checkpoint can
be checked, and passed to the native library, without building a network.
"""

import math
from collections.abc import Iterator, Mapping

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
    shared = _SOURCE if config.tie == "all" and config.num_encoder_layers else _TARGET
    return first | {_TARGET: shared, _OUTPUT: shared}


def count_parameters(shapes: Mapping[str, Shape], *, embeddings: bool = True) -> int:
    """Parameters, tied ones counted once; without `embeddings`, those of the layers alone."""
    skipped = () if embeddings else ("source_embedding.", "target_embedding.", "output.")
    return sum(math.prod(shape) for name, shape in shapes.items() if not name.startswith(skipped))


def _all(config: TransformerConfig) -> Named:
    source, target = config.padded(config.source_vocab_size), config.padded(config.target_vocab_size)
    if config.num_encoder_layers:
        yield from _within("source_embedding", _embedding(config, source))
        yield from _within("encoder", _stack(config, config.num_encoder_layers, has_source=False))
    if config.num_decoder_layers:
        has_source = config.num_encoder_layers > 0
        yield from _within("target_embedding", _embedding(config, target))
        yield from _within("decoder", _stack(config, config.num_decoder_layers, has_source=has_source))
        yield from _linear("output", config.model_dim, target, bias=config.output_bias)


def _embedding(config: TransformerConfig, rows: int) -> Named:
    yield "tokens.weight", (rows, config.model_dim)
    if config.positions == "learned":
        yield "positions.weight", (config.max_positions, config.model_dim)
    if config.embedding_norm:
        yield from _norm("norm", config)


def _stack(config: TransformerConfig, depth: int, *, has_source: bool) -> Named:
    for layer in range(depth):
        yield from _within(f"layers.{layer}", _layer(config, has_source=has_source))
    if config.final_norm:
        yield from _norm("norm", config)
    if config.positions == "relative":
        yield "relative_bias.weight", (config.relative_buckets, config.num_heads)


def _layer(config: TransformerConfig, *, has_source: bool) -> Named:
    for attention in ("attention", "cross") if has_source else ("attention",):
        yield from _within(attention, _attention(config))
        yield from _norm(f"{attention}_residual.norm", config)
    dim, inner, bias = config.model_dim, config.ffn_dim, config.linear_bias
    yield from _linear("feed_forward.input", dim, inner, bias=bias)
    yield from _linear("feed_forward.output", inner, dim, bias=bias)
    yield from _norm("feed_forward_residual.norm", config)


def _attention(config: TransformerConfig) -> Named:
    dim, bias = config.model_dim, config.linear_bias
    yield from _linear("query", dim, dim, bias=bias)
    yield from _linear("key_value", dim, 2 * dim, bias=bias)
    yield from _linear("output", dim, dim, bias=bias)


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
