"""Hugging Face's MarianMTModel with our weights, decoding by its own `generate`."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from transformers import GenerationConfig
from transformers.models.marian.configuration_marian import MarianConfig
from transformers.models.marian.modeling_marian import (
    MarianAttention,
    MarianDecoderLayer,
    MarianEncoderLayer,
    MarianMTModel,
)

from benchmarks.engine import Ids, beams
from model.blocks import Attention
from model.checks import require
from model.config import TransformerConfig
from model.request import DecodeOptions
from model.transformer import Layer, Transformer


class HuggingFaceEngine:
    """A contestant; see benchmarks.engine.Engine."""

    name = "hugging face"

    def __init__(self, network: Transformer, precision: str) -> None:
        self.precision = precision
        self._pad_id, self._eos_id = network.config.pad_id, network.config.eos_id
        self._model = export_marian(network).eval().to(getattr(torch, precision))

    @torch.inference_mode()
    def decode(self, sources: Sequence[Ids], options: DecodeOptions) -> list[tuple[int, ...]]:
        """See Engine."""
        longest = max(map(len, sources))
        padded = [[*ids, *[self._pad_id] * (longest - len(ids))] for ids in sources]
        source_NS = torch.tensor(padded)
        produced_NT = self._model.generate(
            input_ids=source_NS,
            attention_mask=(source_NS != self._pad_id).long(),
            generation_config=self._generation(options),
        )
        return [self._words(ids) for ids in produced_NT[:, 1:].tolist()]

    def _generation(self, options: DecodeOptions) -> GenerationConfig:
        return GenerationConfig(
            max_new_tokens=options.max_length,
            num_beams=beams(options),
            length_penalty=options.length_penalty,
            do_sample=False,
            pad_token_id=self._pad_id,
            eos_token_id=self._eos_id,
            decoder_start_token_id=self._pad_id,
        )

    def _words(self, ids: list[int]) -> tuple[int, ...]:
        ends = [ids.index(end) for end in (self._eos_id, self._pad_id) if end in ids]
        return tuple(ids[: min(ends, default=len(ids))])


def export_marian(network: Transformer) -> MarianMTModel:
    """A Marian model with the weights of ours.

    Raises:
        ConfigError: If Marian cannot hold the configuration; names the field.
    """
    check_marian_holds(network.config)
    theirs = MarianMTModel(_marian_config(network.config))
    body = theirs.model
    _assign(body.shared.weight, network.target_embedding.tokens.weight)
    if network.config.output_bias:
        _assign(theirs.final_logits_bias[0], network.output.bias)
    for ours, stack in ((network.encoder, body.encoder), (network.decoder, body.decoder)):
        for layer, target in zip(ours.layers, stack.layers, strict=True):
            _export_layer(layer, target)
    return theirs


def check_marian_holds(config: TransformerConfig) -> None:
    """Refuse a configuration that Marian does not know.

    Raises:
        ConfigError: Naming the first field that must differ.
    """
    fixed = {
        "norm_position": "post",
        "norm_form": "variance",
        "final_norm": False,
        "norm_bias": True,
        "linear_bias": True,
        "positions": "sinusoidal",
        "sinusoid_layout": "halves",
        "embedding_norm": False,
        "tie": "all",
        "decoder_start_id": config.pad_id,
        "vocab_multiple": 1,
    }
    for field, needed in fixed.items():
        value = getattr(config, field)
        require(value == needed, field, f"{needed!r} for a Marian model", value)


def _marian_config(config: TransformerConfig) -> MarianConfig:
    return MarianConfig(
        vocab_size=config.target_vocab_size,
        d_model=config.model_dim,
        encoder_layers=config.num_encoder_layers,
        decoder_layers=config.num_decoder_layers,
        encoder_attention_heads=config.num_heads,
        decoder_attention_heads=config.num_heads,
        encoder_ffn_dim=config.ffn_dim,
        decoder_ffn_dim=config.ffn_dim,
        activation_function=config.activation,
        max_position_embeddings=config.max_positions,
        scale_embedding=config.scale_embeddings,
        dropout=config.residual_dropout,
        attention_dropout=config.attention_dropout,
        activation_dropout=config.ffn_dropout,
        pad_token_id=config.pad_id,
        eos_token_id=config.eos_id,
        bos_token_id=None,
        decoder_start_token_id=config.decoder_start_id,
        forced_eos_token_id=None,
    )


def _export_layer(ours: Layer, theirs: MarianEncoderLayer | MarianDecoderLayer) -> None:
    _export_attention(ours.attention, theirs.self_attn)
    _copy(ours.attention_residual.norm, theirs.self_attn_layer_norm)
    if isinstance(theirs, MarianDecoderLayer):
        _export_attention(ours.cross, theirs.encoder_attn)
        _copy(ours.cross_residual.norm, theirs.encoder_attn_layer_norm)
    _copy(ours.feed_forward.input, theirs.fc1)
    _copy(ours.feed_forward.output, theirs.fc2)
    _copy(ours.feed_forward_residual.norm, theirs.final_layer_norm)


def _export_attention(ours: Attention, theirs: MarianAttention) -> None:
    _copy(ours.query, theirs.q_proj)
    _copy(ours.output, theirs.out_proj)
    for part, projection in enumerate((theirs.k_proj, theirs.v_proj)):
        _assign(projection.weight, ours.key_value.weight.chunk(2)[part])
        _assign(projection.bias, ours.key_value.bias.chunk(2)[part])


def _copy(ours: nn.Module, theirs: nn.Module) -> None:
    theirs.load_state_dict(ours.state_dict())


def _assign(theirs: Tensor, ours: Tensor) -> None:
    with torch.no_grad():
        theirs.copy_(ours)
