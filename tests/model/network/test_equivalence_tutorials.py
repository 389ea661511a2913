"""Each tutorial's preset is its network: as many parameters, and its outputs from its weights.

The networks are written here as the tutorials write them, without the mistakes that docs/variants.md lists.
"""

import math
from collections.abc import Callable, Iterable
from functools import partial
from itertools import pairwise
from typing import cast

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.testing import assert_close

from model.config import TransformerConfig, preset
from model.network.layers import Attention
from model.network.parameters import count_parameters, parameter_shapes
from model.network.positions import sinusoids
from model.network.transformer import Layer, Transformer
from tests.model.tiny_networks import ids, randomised


def sines(length: int, width: int) -> Tensor:
    return sinusoids(torch.arange(length), width)


def copy(ours: nn.Module, theirs: nn.Module) -> None:
    """Copy all tensors of a module that has the same names and shapes."""
    ours.load_state_dict(theirs.state_dict())


def joined(linears: Iterable[nn.Linear]) -> nn.Linear:
    """Several projections of one input as one."""
    parts = list(linears)
    whole = nn.Linear(
        parts[0].in_features, sum(part.out_features for part in parts), parts[0].bias is not None
    )
    for name in ("weight", "bias")[: 1 + (whole.bias is not None)]:
        getattr(whole, name).data.copy_(torch.cat([getattr(part, name) for part in parts]))
    return whole


def split(linear: nn.Linear, parts: int) -> list[nn.Linear]:
    """One projection without bias as several."""
    found = []
    for weight in linear.weight.chunk(parts):
        found.append(nn.Linear(weight.shape[1], weight.shape[0], bias=False))
        found[-1].weight.data.copy_(weight)
    return found


def copy_attention(
    ours: Attention, query: nn.Linear, key: nn.Linear, value: nn.Linear, output: nn.Linear
) -> None:
    copy(ours.query, query)
    copy(ours.key_value, joined([key, value]))
    copy(ours.output, output)


def copy_norms(ours: Layer, norms: Iterable[nn.Module]) -> None:
    names = ("attention", "cross", "feed_forward") if ours.has_source else ("attention", "feed_forward")
    for name, norm in zip(names, norms, strict=True):
        copy(ours.get_submodule(f"{name}_residual.norm"), norm)


class NanoAttention(nn.Module):
    """nanoGPT's: one matrix for queries, keys and values; here three equal parts of it."""

    def __init__(self, c: TransformerConfig, *, causal: bool) -> None:
        super().__init__()
        self.c_attn = nn.Linear(c.model_dim, 3 * c.model_dim, bias=False)
        self.c_proj = nn.Linear(c.model_dim, c.model_dim, bias=False)
        self.heads, self.causal = c.num_heads, causal

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        to_query, to_key, to_value = split(self.c_attn, 3)
        q, k, v = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in (to_query(x), to_key(memory), to_value(memory))
        )
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return cast(Tensor, self.c_proj(y.transpose(1, 2).flatten(2)))


class NanoLayer(nn.Module):
    def __init__(self, c: TransformerConfig, *, is_decoder: bool) -> None:
        super().__init__()
        self.attn = NanoAttention(c, causal=is_decoder)
        self.cross = NanoAttention(c, causal=False) if is_decoder else None
        self.ln = nn.ModuleList(nn.LayerNorm(c.model_dim, bias=False) for _ in range(2 + is_decoder))
        self.c_fc = nn.Linear(c.model_dim, 4 * c.model_dim, bias=False)
        self.c_proj = nn.Linear(4 * c.model_dim, c.model_dim, bias=False)

    def forward(self, x: Tensor, memory: Tensor | None) -> Tensor:
        normed = self.ln[0](x)
        x = x + self.attn(normed, normed)
        if self.cross is not None:
            x = x + self.cross(self.ln[1](x), memory)
        return cast(Tensor, x + self.c_proj(self.c_fc(self.ln[-1](x)).relu()))


class NanoTranslator(nn.Module):
    """T0: pre-norm, no biases, ReLU, sinusoids, one embedding for both sides, an output matrix of its own."""

    def __init__(self, c: TransformerConfig) -> None:
        super().__init__()
        self.wte = nn.Embedding(c.source_vocab_size, c.model_dim)
        self.encoder = nn.ModuleList(NanoLayer(c, is_decoder=False) for _ in range(c.num_encoder_layers))
        self.decoder = nn.ModuleList(NanoLayer(c, is_decoder=True) for _ in range(c.num_decoder_layers))
        self.ln_f = nn.ModuleList(nn.LayerNorm(c.model_dim, bias=False) for _ in range(2))
        self.lm_head = nn.Linear(c.model_dim, c.target_vocab_size, bias=False)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        memory, y = (self.wte(x) + sines(x.shape[1], self.wte.embedding_dim) for x in (source, target))
        for layer in self.encoder:
            memory = layer(memory, None)
        memory = self.ln_f[0](memory)
        for layer in self.decoder:
            y = layer(y, memory)
        return cast(Tensor, self.lm_head(self.ln_f[1](y)))

    def give(self, ours: Transformer) -> None:
        copy(ours.source_embedding.tokens, self.wte)
        copy(ours.output, self.lm_head)
        stacks = ((ours.encoder, self.encoder, self.ln_f[0]), (ours.decoder, self.decoder, self.ln_f[1]))
        for stack, layers, norm in stacks:
            copy(stack.norm, norm)
            for layer, theirs in zip(stack.layers, layers, strict=True):
                copy_attention(layer.attention, *split(theirs.attn.c_attn, 3), theirs.attn.c_proj)
                if layer.has_source:
                    copy_attention(layer.cross, *split(theirs.cross.c_attn, 3), theirs.cross.c_proj)
                copy(layer.feed_forward.input, theirs.c_fc)
                copy(layer.feed_forward.output, theirs.c_proj)
                copy_norms(layer, theirs.ln)


class ScratchAttention(nn.Module):
    """A projection each for queries, keys, values and output; a mask that is 0 where hidden."""

    def __init__(self, c: TransformerConfig, *, bias: bool) -> None:
        super().__init__()
        self.w = nn.ModuleList(nn.Linear(c.model_dim, c.model_dim, bias=bias) for _ in range(4))
        self.heads = c.num_heads

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
        n, width = query.shape[0], query.shape[-1]
        q, k, v = (
            linear(x).view(n, -1, self.heads, width // self.heads).transpose(1, 2)
            for linear, x in zip(self.w[:3], (query, key, value), strict=True)
        )
        scores = (q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])).masked_fill(mask == 0, -1e9)
        return cast(Tensor, self.w[3]((scores.softmax(-1) @ v).transpose(1, 2).reshape(n, -1, width)))


class ScratchLayer(nn.Module):
    """T1 and T4 (post-norm), and T3 (pre-norm)."""

    def __init__(
        self, c: TransformerConfig, *, is_decoder: bool, pre_norm: bool, bias: tuple[bool, bool]
    ) -> None:
        super().__init__()
        self.attentions = nn.ModuleList(ScratchAttention(c, bias=bias[0]) for _ in range(1 + is_decoder))
        self.up = nn.Linear(c.model_dim, c.ffn_dim, bias=bias[1])
        self.down = nn.Linear(c.ffn_dim, c.model_dim, bias=bias[1])
        self.norms = nn.ModuleList(nn.LayerNorm(c.model_dim) for _ in range(2 + is_decoder))
        self.pre_norm = pre_norm

    def _add(self, i: int, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        if self.pre_norm:
            return x + sublayer(self.norms[i](x))
        return cast(Tensor, self.norms[i](x + sublayer(x)))

    def forward(self, x: Tensor, mask: Tensor, memory: Tensor | None, source_mask: Tensor | None) -> Tensor:
        x = self._add(0, x, lambda y: self.attentions[0](y, y, y, mask))
        if memory is not None:
            x = self._add(1, x, lambda y: self.attentions[1](y, memory, memory, source_mask))
        return self._add(-1, x, lambda y: self.down(self.up(y).relu()))


class ScratchTransformer(nn.Module):
    """Two embeddings, sinusoids, masks of padding and of the future, an output layer with bias.

    T1 is post-norm; T3 pre-norm, with biases in attention and feed-forward layers (`bias`) and scaled
    embeddings; T4 post-norm, with biases in feed-forward layers alone and scaled embeddings.
    """

    def __init__(
        self, c: TransformerConfig, *, pre_norm: bool, bias: tuple[bool, bool], scaled: bool
    ) -> None:
        super().__init__()
        self.embeddings = nn.ModuleList(
            nn.Embedding(size, c.model_dim) for size in (c.source_vocab_size, c.target_vocab_size)
        )
        self.stacks = nn.ModuleList(
            nn.ModuleList(
                ScratchLayer(c, is_decoder=is_decoder, pre_norm=pre_norm, bias=bias) for _ in range(depth)
            )
            for is_decoder, depth in enumerate((c.num_encoder_layers, c.num_decoder_layers))
        )
        self.out = nn.Linear(c.model_dim, c.target_vocab_size)
        self.scale = math.sqrt(c.model_dim) if scaled else 1.0

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        source_mask = (source != 0)[:, None, None]
        length = target.shape[1]
        target_mask = (target != 0)[:, None, None] & torch.ones(length, length, dtype=torch.bool).tril()
        memory, y = (
            embed(x) * self.scale + sines(x.shape[1], embed.embedding_dim)
            for embed, x in zip(self.embeddings, (source, target), strict=True)
        )
        for layer in self.stacks[0]:
            memory = layer(memory, source_mask, None, None)
        for layer in self.stacks[1]:
            y = layer(y, target_mask, memory, source_mask)
        return cast(Tensor, self.out(y))

    def give(self, ours: Transformer) -> None:
        copy(ours.source_embedding.tokens, self.embeddings[0])
        copy(ours.target_embedding.tokens, self.embeddings[1])
        copy(ours.output, self.out)
        for stack, layers in zip((ours.encoder, ours.decoder), self.stacks, strict=True):
            for layer, theirs in zip(stack.layers, layers, strict=True):
                copy_attention(layer.attention, *theirs.attentions[0].w)
                if layer.has_source:
                    copy_attention(layer.cross, *theirs.attentions[1].w)
                copy(layer.feed_forward.input, theirs.up)
                copy(layer.feed_forward.output, theirs.down)
                copy_norms(layer, theirs.norms)


class BertHead(nn.Module):
    """T2's: a module for each head."""

    def __init__(self, width: int, head_dim: int) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(width, head_dim) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.q(x), self.k(x), self.v(x)
        scores = torch.bmm(query, key.transpose(1, 2)) / math.sqrt(query.size(-1))
        return functional.softmax(scores, dim=-1).bmm(value)


class BertLayer(nn.Module):
    def __init__(self, c: TransformerConfig) -> None:
        super().__init__()
        self.layer_norm_1, self.layer_norm_2 = nn.LayerNorm(c.model_dim), nn.LayerNorm(c.model_dim)
        self.heads = nn.ModuleList(BertHead(c.model_dim, c.head_dim) for _ in range(c.num_heads))
        self.output_linear = nn.Linear(c.model_dim, c.model_dim)
        self.linear_1, self.linear_2 = (
            nn.Linear(*sizes) for sizes in pairwise((c.model_dim, c.ffn_dim, c.model_dim))
        )

    def forward(self, x: Tensor) -> Tensor:
        normed = self.layer_norm_1(x)
        x = x + self.output_linear(torch.cat([head(normed) for head in self.heads], -1))
        return cast(Tensor, x + self.linear_2(functional.gelu(self.linear_1(self.layer_norm_2(x)))))


class BertEncoder(nn.Module):
    """T2: pre-norm layers after learned positions and a norm."""

    def __init__(self, c: TransformerConfig) -> None:
        super().__init__()
        self.tokens = nn.Embedding(c.source_vocab_size, c.model_dim)
        self.positions = nn.Embedding(c.max_positions, c.model_dim)
        self.layer_norm = nn.LayerNorm(c.model_dim, eps=1e-12)
        self.layers = nn.ModuleList(BertLayer(c) for _ in range(c.num_encoder_layers))

    def forward(self, input_ids: Tensor) -> Tensor:
        x = self.layer_norm(self.tokens(input_ids) + self.positions(torch.arange(input_ids.shape[1])))
        for layer in self.layers:
            x = layer(x)
        return cast(Tensor, x)

    def give(self, ours: Transformer) -> None:
        embedding = ours.source_embedding
        pairs = ((embedding.tokens, self.tokens), (embedding.positions, self.positions))
        for mine, theirs in (*pairs, (embedding.norm, self.layer_norm)):
            copy(mine, theirs)
        for layer, theirs in zip(ours.encoder.layers, self.layers, strict=True):
            parts = (joined(getattr(head, name) for head in theirs.heads) for name in "qkv")
            copy_attention(layer.attention, *parts, theirs.output_linear)
            copy(layer.feed_forward.input, theirs.linear_1)
            copy(layer.feed_forward.output, theirs.linear_2)
            copy_norms(layer, [theirs.layer_norm_1, theirs.layer_norm_2])


post_norm = partial(ScratchTransformer, pre_norm=False, bias=(False, False), scaled=False)
annotated = partial(ScratchTransformer, pre_norm=True, bias=(True, True), scaled=True)
d2l = partial(ScratchTransformer, pre_norm=False, bias=(False, True), scaled=True)

# Preset, network, vocabularies, parameters.
TUTORIALS: list[tuple[str, Callable[[TransformerConfig], nn.Module], tuple[int, int], int]] = [
    ("nanogpt", NanoTranslator, (1024, 1024), 25_571_328),
    ("postnorm", post_norm, (100, 200), 31_744_200),
    ("bert", BertEncoder, (30_522, 30_522), 108_890_112),
    ("annotated", annotated, (1000, 1200), 45_880_496),
    ("d2l", d2l, (184, 201), 60_937),
]
EACH = pytest.mark.parametrize(
    ("name", "build", "words", "parameters"), TUTORIALS, ids=[name for name, *_ in TUTORIALS]
)


@EACH
def test_the_preset_has_the_tutorials_parameters(
    name: str, build: Callable[[TransformerConfig], nn.Module], words: tuple[int, int], parameters: int
) -> None:
    config = preset(name, source_vocab_size=words[0], target_vocab_size=words[1])
    assert count_parameters(parameter_shapes(config)) == parameters
    with torch.device("meta"):
        assert sum(parameter.numel() for parameter in build(config).parameters()) == parameters


@EACH
@torch.inference_mode()
def test_the_tutorials_weights_give_its_outputs(
    name: str, build: Callable[[TransformerConfig], nn.Module], words: tuple[int, int], parameters: int
) -> None:
    small = {"num_encoder_layers": 2} | ({} if name == "bert" else {"num_decoder_layers": 2})
    if name != "d2l":
        small |= {"model_dim": 64, "num_heads": 4, "ffn_dim": 256}
    vocabulary = {"source_vocab_size": min(words[0], 1024), "target_vocab_size": min(words[1], 1024)}
    config = preset(name, **vocabulary, **small)
    theirs, ours = build(config), Transformer(config).eval()
    for part in theirs.modules():
        if isinstance(part, nn.LayerNorm):
            randomised(part)
        elif isinstance(part, nn.Embedding):
            nn.init.normal_(part.weight, std=config.model_dim**-0.5)
    theirs.give(ours)
    source_NS, target_NT = ids(3, 7, vocab_size=100), ids(3, 9, vocab_size=100)
    if name in ("postnorm", "annotated", "d2l"):  # the others do not mask padding
        source_NS[1, 4:] = 0
    inputs = (source_NS,) if name == "bert" else (source_NS, target_NT)
    assert_close(ours(*inputs), theirs(*inputs), atol=1e-5, rtol=1e-5)
