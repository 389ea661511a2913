"""Masks mean one thing everywhere: True = look; however they are spelled, they hide the same."""

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from model.network.layers import Attention, attention_weights, key_mask
from tests.model.tiny_networks import noise, randomised, tiny_config

DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def queries_and_keys(length: int) -> tuple[Tensor, Tensor]:
    return noise(2, 3, length, 8, seed=1), noise(2, 3, length, 8, seed=2)


def test_three_spellings_of_causality_are_one() -> None:
    query, key = queries_and_keys(6)
    triangle = torch.ones(6, 6, dtype=torch.bool)
    lengths = torch.arange(1, 7)
    spellings = [triangle.tril(), ~triangle.triu(1), torch.arange(6)[None, :] < lengths[:, None]]
    for mask in spellings:
        assert torch.equal(
            attention_weights(query, key, mask), attention_weights(query, key, None, causal=True)
        )


def test_true_means_look_where_torchs_own_modules_mean_hide() -> None:
    attention = randomised(Attention(tiny_config()))
    theirs = nn.MultiheadAttention(16, 2, batch_first=True)
    theirs.in_proj_weight.data = torch.cat([attention.query.weight, attention.key_value.weight]).detach()
    theirs.in_proj_bias.data = torch.cat([attention.query.bias, attention.key_value.bias]).detach()
    theirs.out_proj.load_state_dict(attention.output.state_dict())
    look_NS = torch.tensor([[True] * 5, [True, True, False, False, False]])
    states = noise(2, 5, 16)
    expected, _ = theirs(states, states, states, key_padding_mask=~look_NS)
    keys, values = attention.keys_values(states)
    actual = attention.attend(attention.queries(states), keys, values, key_mask(look_NS))
    assert_close(actual, expected, atol=1e-5, rtol=1e-5)


def test_the_key_masks_truth_table() -> None:
    rows = torch.tensor([[True, True], [True, False], [False, True], [False, False]])
    looked_at = torch.tensor([[True, True], [True, False], [False, True], [True, True]])
    assert torch.equal(key_mask(rows), looked_at[:, None, None, :])


@pytest.mark.parametrize("valid", [1, 3, 5])
def test_three_spellings_of_padding_are_one(valid: int) -> None:
    """Hidden keys, a query × key product and valid lengths agree on every real query."""
    query, key = queries_and_keys(5)
    real_S = torch.arange(5) < valid
    by_key = attention_weights(query, key, key_mask(real_S.expand(2, 5)))
    by_product = attention_weights(query, key, real_S[:, None] & real_S[None, :])
    assert torch.equal(by_key[:, :, :valid], by_product[:, :, :valid])
    assert torch.equal(by_key[..., valid:], torch.zeros(2, 3, 5, 5 - valid))


@pytest.mark.parametrize("dtype", DTYPES)
def test_minus_infinity_and_a_large_negative_number_hide_alike(dtype: torch.dtype) -> None:
    query, key = (states.to(dtype) for states in queries_and_keys(5))
    mask = torch.tensor([True, True, True, False, False])
    large = torch.finfo(dtype).min if dtype == torch.float16 else -1e9
    filled = torch.zeros(5, dtype=dtype).masked_fill(~mask, large)
    assert torch.equal(attention_weights(query, key, mask), attention_weights(query, key, filled))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("explicit", [True, False])
def test_a_fully_masked_row_gives_numbers(dtype: torch.dtype, explicit: bool) -> None:
    attention = Attention(tiny_config()).eval().to(dtype)
    states = noise(2, 5, 16).to(dtype)
    mask = key_mask(torch.zeros(2, 5, dtype=torch.bool))
    keys, values = attention.keys_values(states)
    kept: list[Tensor] | None = [] if explicit else None
    joined = attention.attend(attention.queries(states), keys, values, mask, weights=kept)
    assert joined.dtype == dtype
    assert joined.isfinite().all()
