"""Four ways to lay out attention heads, with the same weights: one result."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from model.network.layers import Attention
from tests.model.tiny_networks import noise, randomised, tiny_config

HEADS, WIDTH = 4, 16
Layout = Callable[[Attention, Tensor, Tensor], Tensor]


def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return (query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])).softmax(-1) @ value


def separate(ours: Attention, queries: Tensor, keys: Tensor) -> list[Tensor]:
    """Projected queries, keys and values, (N, L, M) each, before any head is split off."""
    key_weight, value_weight = ours.key_value.weight.chunk(2)
    key_bias, value_bias = ours.key_value.bias.chunk(2)
    linear = nn.functional.linear
    return [
        linear(queries, ours.query.weight, ours.query.bias),
        linear(keys, key_weight, key_bias),
        linear(keys, value_weight, value_bias),
    ]


def fused_matrices(ours: Attention, queries: Tensor, keys: Tensor) -> Tensor:
    """One matrix each for all heads' queries, keys and values; heads on an axis of their own."""
    split = [states.view(len(states), -1, HEADS, WIDTH // HEADS) for states in separate(ours, queries, keys)]
    joined = attend(*(states.permute(0, 2, 1, 3) for states in split))
    return ours.output(joined.permute(0, 2, 1, 3).reshape(queries.shape))


def heads_in_the_batch(ours: Attention, queries: Tensor, keys: Tensor) -> Tensor:
    """(N·H, L, M/H): heads are more sentences."""

    def to_batch(states: Tensor) -> Tensor:
        split = states.reshape(len(states), -1, HEADS, WIDTH // HEADS).permute(0, 2, 1, 3)
        return split.reshape(-1, states.shape[1], WIDTH // HEADS)

    joined = attend(*(to_batch(states) for states in separate(ours, queries, keys)))
    unfolded = joined.reshape(-1, HEADS, queries.shape[1], WIDTH // HEADS).permute(0, 2, 1, 3)
    return ours.output(unfolded.reshape(queries.shape))


def one_module_a_head(ours: Attention, queries: Tensor, keys: Tensor) -> Tensor:
    """Every head projects, attends and is concatenated by itself."""
    size, results = WIDTH // HEADS, []
    key_weight, value_weight = ours.key_value.weight.chunk(2)
    key_bias, value_bias = ours.key_value.bias.chunk(2)
    for head in range(HEADS):
        rows = slice(head * size, (head + 1) * size)
        query = queries @ ours.query.weight[rows].T + ours.query.bias[rows]
        key = keys @ key_weight[rows].T + key_bias[rows]
        value = keys @ value_weight[rows].T + value_bias[rows]
        results.append(attend(query, key, value))
    return ours.output(torch.cat(results, -1))


def fused_query_key_value(ours: Attention, queries: Tensor, keys: Tensor) -> Tensor:
    """One matrix for all three, as nanoGPT has it: only a self-attention can."""
    weight = torch.cat([ours.query.weight, ours.key_value.weight])
    bias = torch.cat([ours.query.bias, ours.key_value.bias])
    split = nn.functional.linear(queries, weight, bias).split(WIDTH, 2)
    heads = [states.view(len(states), -1, HEADS, WIDTH // HEADS).transpose(1, 2) for states in split]
    return ours.output(attend(*heads).transpose(1, 2).reshape(queries.shape))


def our_attention(attention: Attention, queries: Tensor, keys: Tensor) -> Tensor:
    return attention.attend(attention.queries(queries), *attention.keys_values(keys), None)


@pytest.mark.parametrize(
    "layout", [fused_matrices, heads_in_the_batch, one_module_a_head, fused_query_key_value]
)
@torch.inference_mode()
def test_self_attention_is_the_same_in_every_layout(layout: Layout) -> None:
    attention = randomised(Attention(tiny_config(num_heads=HEADS)))
    states = noise(3, 7, WIDTH)
    actual = our_attention(attention, states, states)
    assert_close(actual, layout(attention, states, states), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("layout", [fused_matrices, heads_in_the_batch, one_module_a_head])
@torch.inference_mode()
def test_cross_attention_is_the_same_in_every_layout(layout: Layout) -> None:
    """Viewing keys with the queries' length, as one source does, cannot give 7 keys for 11 queries."""
    attention = randomised(Attention(tiny_config(num_heads=HEADS)))
    queries, keys = noise(3, 11, WIDTH, seed=1), noise(3, 7, WIDTH, seed=2)
    actual = our_attention(attention, queries, keys)
    assert actual.shape == (3, 11, WIDTH)
    assert_close(actual, layout(attention, queries, keys), atol=1e-5, rtol=1e-5)
