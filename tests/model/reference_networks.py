"""Our networks with the weights of others."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

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
