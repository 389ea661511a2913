"""Other people's Transformers, and ours with their weights."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.models.mt5.modeling_mt5 import MT5ForConditionalGeneration
from transformers.models.t5.modeling_t5 import T5ForConditionalGeneration

from model.network.layers import Attention, FeedForward
from model.network.transformer import Layer, Transformer


def copy_torch(ours: Transformer, theirs: nn.Transformer) -> None:
    """Give our layers the weights of a torch.nn.Transformer; embeddings and output stay ours."""
    for stack, reference in ((ours.encoder, theirs.encoder), (ours.decoder, theirs.decoder)):
        for layer, source in zip(stack.layers, reference.layers, strict=True):
            _copy_torch_attention(layer.attention, source.self_attn)
            norms = [source.norm1, source.norm2]
            if layer.has_source:
                _copy_torch_attention(layer.cross, source.multihead_attn)
                norms.append(source.norm3)
            _copy_feed_forward(layer.feed_forward, source.linear1, source.linear2)
            _copy_norms(layer, norms)
        copy(stack.norm, reference.norm)


def copy_bart(ours: Transformer, theirs: PreTrainedModel) -> None:
    """Give ours the weights of a Hugging Face model with the names of BART: Marian, mBART, M2M100."""
    body = theirs.model
    _assign(ours.output.weight, theirs.lm_head.weight)
    if ours.config.output_bias:
        _assign(ours.output.bias, theirs.final_logits_bias[0])
    sides = (
        (ours.source_embedding, ours.encoder, body.encoder),
        (ours.target_embedding, ours.decoder, body.decoder),
    )
    for embedding, stack, reference in sides:
        copy(embedding.tokens, reference.embed_tokens)
        if ours.config.positions == "learned":
            _assign(embedding.positions.weight, reference.embed_positions.weight[2:])
        if ours.config.embedding_norm:
            copy(embedding.norm, reference.layernorm_embedding)
        if ours.config.final_norm:
            copy(stack.norm, reference.layer_norm)
        for layer, source in zip(stack.layers, reference.layers, strict=True):
            _copy_marian_attention(layer.attention, source.self_attn)
            norms = [source.self_attn_layer_norm, source.final_layer_norm]
            if layer.has_source:
                _copy_marian_attention(layer.cross, source.encoder_attn)
                norms.insert(1, source.encoder_attn_layer_norm)
            _copy_feed_forward(layer.feed_forward, source.fc1, source.fc2)
            _copy_norms(layer, norms)


def copy_t5(ours: Transformer, theirs: T5ForConditionalGeneration | MT5ForConditionalGeneration) -> None:
    """Give ours the weights of a T5; its layers share the bias of the first."""
    copy(ours.output, theirs.lm_head)
    sides = (
        (ours.source_embedding, ours.encoder, theirs.encoder),
        (ours.target_embedding, ours.decoder, theirs.decoder),
    )
    for embedding, stack, reference in sides:
        copy(embedding.tokens, reference.embed_tokens)
        copy(stack.norm, reference.final_layer_norm)
        copy(stack.relative_bias, reference.block[0].layer[0].SelfAttention.relative_attention_bias)
        for layer, block in zip(stack.layers, reference.block, strict=True):
            _copy_t5_attention(layer.attention, block.layer[0].SelfAttention)
            if layer.has_source:
                _copy_t5_attention(layer.cross, block.layer[1].EncDecAttention)
            inner = block.layer[-1].DenseReluDense
            copy(layer.feed_forward.output, inner.wo)
            if layer.feed_forward.gate is None:
                copy(layer.feed_forward.input, inner.wi)
            else:
                copy(layer.feed_forward.input, inner.wi_0)
                copy(layer.feed_forward.gate, inner.wi_1)
            _copy_norms(layer, [part.layer_norm for part in block.layer])


def copy(ours: nn.Module, theirs: nn.Module) -> None:
    """Copy all tensors of a module that has the same names and shapes."""
    ours.load_state_dict(theirs.state_dict())


def _copy_torch_attention(ours: Attention, theirs: nn.MultiheadAttention) -> None:
    width = theirs.embed_dim
    _assign(ours.query.weight, theirs.in_proj_weight[:width])
    _assign(ours.key_value.weight, theirs.in_proj_weight[width:])
    if theirs.in_proj_bias is not None:
        _assign(ours.query.bias, theirs.in_proj_bias[:width])
        _assign(ours.key_value.bias, theirs.in_proj_bias[width:])
    copy(ours.output, theirs.out_proj)


def _copy_marian_attention(ours: Attention, theirs: nn.Module) -> None:
    _copy_attention(ours, theirs.q_proj, theirs.k_proj, theirs.v_proj, theirs.out_proj)


def _copy_t5_attention(ours: Attention, theirs: nn.Module) -> None:
    _copy_attention(ours, theirs.q, theirs.k, theirs.v, theirs.o)


def _copy_attention(
    ours: Attention, query: nn.Linear, key: nn.Linear, value: nn.Linear, output: nn.Linear
) -> None:
    copy(ours.query, query)
    _assign(ours.key_value.weight, torch.cat([key.weight, value.weight]))
    if key.bias is not None:
        _assign(ours.key_value.bias, torch.cat([key.bias, value.bias]))
    copy(ours.output, output)


def _copy_feed_forward(ours: FeedForward, first: nn.Linear, second: nn.Linear) -> None:
    copy(ours.input, first)
    copy(ours.output, second)


def _copy_norms(layer: Layer, norms: Iterable[nn.Module]) -> None:
    residuals = [layer.attention_residual, layer.feed_forward_residual]
    if layer.has_source:
        residuals.insert(1, layer.cross_residual)
    for residual, norm in zip(residuals, norms, strict=True):
        copy(residual.norm, norm)


def _assign(ours: Tensor, theirs: Tensor) -> None:
    with torch.no_grad():
        ours.copy_(theirs)
