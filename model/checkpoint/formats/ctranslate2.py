"""ⓕ CTranslate2's model folder (https://opennmt.net/CTranslate2/), written through its own specification.

Values that CTranslate2 needs and our network lacks are written so that they change nothing: a missing bias as
zeros. Rows that pad a vocabulary are left out. Configurations that CTranslate2 lacks are refused by name.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import torch
from ctranslate2.specs import LayerSpec
from ctranslate2.specs.attention_spec import MultiHeadAttentionSpec
from ctranslate2.specs.common_spec import Activation, LayerNormSpec, LinearSpec
from ctranslate2.specs.transformer_spec import (
    TransformerDecoderSpec,
    TransformerEncoderSpec,
    TransformerSpec,
)
from torch import Tensor, nn

from model.checkpoint.folder import Checkpoint
from model.checkpoint.formats.export import describe, never_produced, source_pieces, target_pieces
from model.config import TransformerConfig
from model.network.embedding import Embedding
from model.network.layers import Attention
from model.network.transformer import Layer, Stack, Transformer
from model.text.tokenizer import copy_tokenizer
from model.validators import require

_ACTIVATIONS = {
    "relu": Activation.RELU,
    "gelu": Activation.GELU,
    "gelu_tanh": Activation.GELUTanh,
    "silu": Activation.SWISH,
}
# Far enough below any logit that exp gives 0, and within float16.
_NEVER = -1e4


def write_ctranslate2(checkpoint: Checkpoint, folder: Path, quantization: str) -> None:
    """Writes a model that `ctranslate2.Translator` loads.

    Args:
        checkpoint: The checkpoint to export.
        folder: An empty folder.
        quantization: CTranslate2's name of the number type.

    Raises:
        ConfigError: With the field that CTranslate2 cannot represent.
    """
    card, config = checkpoint.card, checkpoint.config
    longest = max(config.max_positions, card.max_source_length, card.max_target_length)
    spec = transformer_spec(
        checkpoint.network(), positions=longest + 1, never_produced=never_produced(checkpoint)
    )
    sources, targets = source_pieces(checkpoint), target_pieces(checkpoint)
    spec.register_source_vocabulary(sources)
    spec.register_target_vocabulary(targets)
    spec.config.unk_token, spec.config.bos_token = targets[config.unk_id], targets[config.bos_id]
    spec.config.eos_token = targets[config.eos_id]
    spec.config.decoder_start_token = targets[config.decoder_start_id]
    spec.validate()
    spec.optimize(quantization=quantization)
    spec.save(str(folder))
    copy_tokenizer(checkpoint.folder, folder)
    describe(checkpoint, folder, quantization)


@torch.no_grad()
def transformer_spec(
    network: Transformer, *, positions: int, never_produced: Collection[int] = ()
) -> TransformerSpec:
    """Returns CTranslate2's specification of a network, without vocabularies.

    Args:
        network: An encoder-decoder in evaluation mode.
        positions: Number of sinusoidal positions to tabulate.
        never_produced: Target ids whose output bias rules them out.

    Raises:
        ConfigError: With the field that CTranslate2 cannot represent.
    """
    config = network.config
    check_ctranslate2_holds(config)
    options = _stack_options(config)
    spec = TransformerSpec(
        TransformerEncoderSpec(config.num_encoder_layers, config.num_heads, **options),
        TransformerDecoderSpec(config.num_decoder_layers, config.num_heads, **options),
    )
    spec.config.layer_norm_epsilon = config.norm_epsilon
    if config.logit_scale != 1:
        spec.decoder.scale_outputs = config.logit_scale
    sides = (
        (spec.encoder, spec.encoder.embeddings[0], network.source_embedding, config.source_vocab_size),
        (spec.decoder, spec.decoder.embeddings, network.target_embedding, config.target_vocab_size),
    )
    for stack, embeddings, ours, size in sides:
        embeddings.weight = ours.tokens.weight[:size]
        _fill_embedding(stack, ours, positions)
    _fill_stack(spec.encoder, network.encoder)
    _fill_stack(spec.decoder, network.decoder)
    _fill_projection(spec.decoder.projection, network, never_produced)
    return spec


def check_ctranslate2_holds(config: TransformerConfig) -> None:
    """Refuses a configuration that CTranslate2 lacks.

    Raises:
        ConfigError: With the first field that must differ.
    """
    for name in ("num_encoder_layers", "num_decoder_layers"):
        require(getattr(config, name) > 0, name, "at least 1 for CTranslate2", getattr(config, name))
    form, memory = config.norm_form, config.decoder_memory
    known = form != "standard_deviation"
    require(known, "norm_form", "'variance' or 'root_mean_square' for CTranslate2", form)
    shifts = form == "root_mean_square" and config.norm_bias
    require(not shifts, "norm_bias", "False with root_mean_square norms for CTranslate2", config.norm_bias)
    epsilon = config.embedding_norm_epsilon
    one_epsilon = not config.embedding_norm or epsilon in (None, config.norm_epsilon)
    require(one_epsilon, "embedding_norm_epsilon", "norm_epsilon or None for CTranslate2", epsilon)
    require(memory == "attention", "decoder_memory", "'attention' for CTranslate2", memory)
    ends_well = config.norm_position == "pre" or not config.final_norm
    require(ends_well, "final_norm", "False after post-norm layers for CTranslate2", config.final_norm)


def _stack_options(config: TransformerConfig) -> Mapping[str, object]:
    return {
        "pre_norm": config.norm_position == "pre",
        "no_final_norm": not config.final_norm,
        "activation": _ACTIVATIONS[config.activation],
        "ffn_glu": config.gated_ffn,
        "rms_norm": config.norm_form == "root_mean_square",
        "head_dim": config.head_dim,
        "layernorm_embedding": config.embedding_norm,
        "relative_attention_bias": config.positions == "relative",
        "relative_position": config.positions == "relative_vectors",
        "rotary_dim": 0 if config.positions == "rotary" else None,  # 0: all of a head's features
    }


def _fill_embedding(spec: LayerSpec, ours: Embedding, positions: int) -> None:
    config = ours.config
    spec.scale_embeddings = math.sqrt(config.model_dim) if config.scale_embeddings else 1.0
    count = config.max_positions if config.positions == "learned" else positions
    table = ours.added_positions(count, ours.tokens.weight.device)
    if table is not None:
        spec.position_encodings.encodings = table
    if config.embedding_norm:
        _fill_norm(spec.layernorm_embedding, ours.norm)


def _fill_stack(spec: LayerSpec, ours: Stack) -> None:
    for theirs, layer in zip(spec.layer, ours.layers, strict=True):
        _fill_layer(theirs, layer)
    if ours.config.final_norm:
        _fill_norm(spec.layer_norm, ours.norm)
    if ours.config.positions == "relative":
        for layer in spec.layer:
            layer.self_attention.relative_attention_bias = ours.relative_bias.weight
            distance = torch.tensor(ours.config.relative_max_distance, dtype=torch.int32)
            layer.self_attention.relative_attention_max_distance = distance


def _fill_layer(spec: LayerSpec, ours: Layer) -> None:
    _fill_self_attention(spec.self_attention, ours.attention)
    _fill_norm(spec.self_attention.layer_norm, ours.attention_residual.norm)
    if ours.has_source:
        _fill_cross_attention(spec.attention, ours.cross)
        _fill_norm(spec.attention.layer_norm, ours.cross_residual.norm)
    _fill_linear(spec.ffn.linear_0, [ours.feed_forward.input])
    if ours.feed_forward.gate is not None:
        _fill_linear(spec.ffn.linear_0_noact, [ours.feed_forward.gate])
    _fill_linear(spec.ffn.linear_1, [ours.feed_forward.output])
    _fill_norm(spec.ffn.layer_norm, ours.feed_forward_residual.norm)


def _fill_self_attention(spec: MultiHeadAttentionSpec, ours: Attention) -> None:
    spec.queries_scale = ours.scale
    if ours.relative is not None:
        spec.relative_position_keys = ours.relative.keys.weight
        spec.relative_position_values = ours.relative.values.weight
    _fill_linear(spec.linear[0], [ours.query, ours.key_value])
    _fill_linear(spec.linear[1], [ours.output])


def _fill_cross_attention(spec: MultiHeadAttentionSpec, ours: Attention) -> None:
    spec.queries_scale = ours.scale
    for theirs, linear in zip(spec.linear, (ours.query, ours.key_value, ours.output), strict=True):
        _fill_linear(theirs, [linear])


def _fill_linear(spec: LinearSpec, ours: Sequence[nn.Linear]) -> None:
    """Fills one projection from one of ours, or from several that share their input."""
    spec.weight = torch.cat([linear.get_parameter("weight") for linear in ours])
    if ours[0].bias is not None:
        spec.bias = torch.cat([linear.get_parameter("bias") for linear in ours])


def _fill_norm(spec: LayerNormSpec, ours: nn.Module) -> None:
    gain: Tensor = ours.get_parameter("weight")
    shift = getattr(ours, "bias", None)
    spec.gamma = gain
    if hasattr(spec, "beta"):  # a root-mean-square norm has none
        spec.beta = torch.zeros_like(gain) if shift is None else shift


def _fill_projection(spec: LinearSpec, network: Transformer, never_produced: Collection[int]) -> None:
    size = network.config.target_vocab_size
    spec.weight = network.output.weight[:size]
    has_bias = network.config.output_bias
    shift = network.output.bias[:size].clone() if has_bias else torch.zeros(size)
    shift[sorted(never_produced)] = _NEVER
    if has_bias or never_produced:
        spec.bias = shift
