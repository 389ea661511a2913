"""The networks that are measured: shapes that all engines can hold, with random weights."""

from collections.abc import Mapping
from dataclasses import replace

import torch

from model.config import TransformerConfig
from model.network.layers import FeedForward
from model.network.transformer import Transformer
from model.presets import preset

FIRST_WORD = 265
"""Of the embedded tokenizer's ids, which the shapes share: before it are special ids, tags and bytes."""

_NEVER = -1e9
# Of the initial weights: tokens then differ from step to step, and from source to source.
_FEED_FORWARD_GAIN, _ATTENTION_GAIN = 10.0, 0.3


def _shape(preset_name: str, vocab_size: int, **overrides: object) -> TransformerConfig:
    """A preset with what Marian fixes: post-norm, and one vocabulary for everything."""
    return preset(
        preset_name,
        source_vocab_size=vocab_size,
        target_vocab_size=vocab_size,
        norm_position="post",
        final_norm=False,
        **overrides,
    )


SHAPES: Mapping[str, TransformerConfig] = {
    "tiny": _shape(
        "base", 8_000, model_dim=16, num_heads=2, num_encoder_layers=2, num_decoder_layers=2, ffn_dim=32
    ),
    "small": _shape("small", 8_000),
    "base": _shape("base", 32_000),
}


def untrained_network(config: TransformerConfig, seed: int) -> Transformer:
    """A network as training would begin with it."""
    torch.manual_seed(seed)
    return Transformer(config)


def endless_network(config: TransformerConfig, seed: int) -> Transformer:
    """A network that never ends a sentence and writes words alone: a translation is as long as it may be.

    The output bias forbids the rest, which costs every engine the same: one addition.

    Args:
        config: The shape; gets an output bias.
        seed: Of the weights.
    """
    network = untrained_network(replace(config, output_bias=True), seed).eval()
    with torch.no_grad():
        network.output.bias[:FIRST_WORD] = _NEVER
        for name, linear in network.named_modules():
            if name.endswith(("attention.output", "cross.output")):
                linear.weight *= _ATTENTION_GAIN
        for block in (part for part in network.modules() if isinstance(part, FeedForward)):
            _mix(block)
    return network


def _mix(block: FeedForward) -> None:
    """Have a feed-forward block turn every token into quite another one.

    As initialised, a network adds nearly the same vector to all tokens, and tied embeddings then repeat
    one token for ever: equal translations would prove little. relu(x) - relu(-x) = x adds no constant.
    """
    half = block.input.out_features // 2
    block.input.weight[half:] = -block.input.weight[:half]
    block.output.weight[:, half:] = -block.output.weight[:, :half]
    block.output.weight *= _FEED_FORWARD_GAIN
