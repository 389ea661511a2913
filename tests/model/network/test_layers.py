"""The parts of a layer by their formulas; masks mean one thing everywhere, however they are spelled."""

import logging
import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.testing import assert_close

from model.network.layers import (
    Attention,
    Dropout,
    FeedForward,
    Residual,
    RootMeanSquareNorm,
    SimpleRecurrentUnit,
    StandardDeviationNorm,
    choose_attention_kernels,
    key_mask,
    layer_norm,
    masked_softmax,
)
from tests.model.tiny_networks import noise, randomised, tiny_config

DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def attention_weights(queries: Tensor, keys: Tensor, mask: Tensor | None, *, causal: bool = False) -> Tensor:
    """softmax(QKᵀ/√D) by hand, (N, H, Q, S); the reference of the fused kernel."""
    scores = queries @ keys.transpose(-1, -2) / math.sqrt(queries.shape[-1])
    return masked_softmax(scores, mask, causal=causal)


def zero(states: Tensor) -> Tensor:
    return torch.zeros_like(states)


def some_states(batch: int = 2, length: int = 5) -> Tensor:
    return 3 + 2 * noise(batch, length, 16)


def test_a_pre_norm_block_of_zeros_is_the_identity() -> None:
    """Adding to the normed input instead, as one source does, would return norm(x)."""
    residual = randomised(Residual(tiny_config(norm_position="pre")))
    assert torch.equal(residual(some_states(), zero), some_states())


def test_a_pre_norm_block_sees_the_normed_input_and_adds_to_the_other() -> None:
    """Ignoring the normed input, as another source's lambda does, would hand the block x itself."""
    residual, seen = randomised(Residual(tiny_config(norm_position="pre"))), []

    def block(states: Tensor) -> Tensor:
        seen.append(states)
        return states.square()

    result = residual(some_states(), block)
    normed = residual.norm(some_states())
    assert_close(seen[0], normed)
    assert not torch.allclose(normed, some_states(), atol=0.1)
    assert_close(result, some_states() + normed.square())


@pytest.mark.parametrize("form", ["variance", "standard_deviation"])
@pytest.mark.parametrize("epsilon", [1e-5, 1e-12])
def test_a_normed_row_has_mean_0_and_variance_1(form: str, epsilon: float) -> None:
    norm = layer_norm(tiny_config(norm_form=form, norm_epsilon=epsilon))
    normed = norm(some_states())
    assert_close(normed.mean(-1), torch.zeros(2, 5), atol=1e-5, rtol=0)
    variance = normed.var(-1, correction=int(form == "standard_deviation"))
    assert_close(variance, torch.ones(2, 5), atol=1e-4, rtol=0)


@pytest.mark.parametrize("bias", [True, False])
def test_the_standard_deviation_norm_is_its_formula(bias: bool) -> None:
    norm, states = randomised(StandardDeviationNorm(16, 0.1, bias=bias)), some_states()
    mean = states.sum(-1, keepdim=True) / 16
    deviation = ((states - mean).square().sum(-1, keepdim=True) / 15).sqrt()
    expected = norm.weight * (states - mean) / (deviation + 0.1) + (norm.bias if bias else 0)
    assert_close(norm(states), expected)


@pytest.mark.parametrize("bias", [True, False])
def test_the_root_mean_square_norm_is_its_formula(bias: bool) -> None:
    norm, states = randomised(RootMeanSquareNorm(16, 0.1, bias=bias)), some_states()
    expected = norm.weight * states / (states.square().sum(-1, keepdim=True) / 16 + 0.1).sqrt()
    assert_close(norm(states), expected + norm.bias if bias else expected)
    assert_close(
        RootMeanSquareNorm(16, 1e-6, bias=False)(states), functional.rms_norm(states, (16,), eps=1e-6)
    )


def test_a_gated_feed_forward_block_multiplies_by_a_third_projection() -> None:
    block = randomised(FeedForward(tiny_config(activation="gelu_tanh", gated_ffn=True)))
    states, gate = some_states(), block.gate
    inner = functional.gelu(block.input(states), approximate="tanh") * gate(states)
    assert_close(block(states), block.output(inner))


@pytest.mark.parametrize("activation", ["relu", "gelu", "silu"])
def test_the_feed_forward_block_is_two_convolutions_of_width_1(activation: str) -> None:
    block = randomised(FeedForward(tiny_config(activation=activation)))
    channels_first = some_states().transpose(1, 2)
    inner = functional.conv1d(channels_first, block.input.weight[..., None], block.input.bias)
    inner = {"relu": functional.relu, "gelu": functional.gelu, "silu": functional.silu}[activation](inner)
    outer = functional.conv1d(inner, block.output.weight[..., None], block.output.bias)
    assert_close(block(some_states()), outer.transpose(1, 2), atol=1e-5, rtol=1e-5)


def heads(queries: int, keys: int) -> tuple[Tensor, Tensor, Tensor]:
    return noise(2, 3, queries, 8, seed=1), noise(2, 3, keys, 8, seed=2), noise(2, 3, keys, 8, seed=3)


@pytest.mark.parametrize(
    ("queries", "keys", "causal"), [(5, 5, False), (5, 5, True), (7, 11, False), (11, 7, False)]
)
def test_weights_by_hand_are_those_of_the_fused_kernel(queries: int, keys: int, causal: bool) -> None:
    query, key, value = heads(queries, keys)
    weights = attention_weights(query, key, None, causal=causal)
    assert_close(weights.sum(-1), torch.ones(2, 3, queries))
    fused = functional.scaled_dot_product_attention(query, key, value, is_causal=causal)
    assert_close(weights @ value, fused, atol=1e-5, rtol=1e-5)


def test_a_rate_of_1_leaves_nothing() -> None:
    assert not Dropout(1.0).train()(torch.ones(1000)).any()


def test_the_recurrent_unit_is_its_formula() -> None:
    unit, states = randomised(SimpleRecurrentUnit(tiny_config())), some_states()
    cell, outputs = torch.zeros(2, 16), []
    for state in states.unbind(1):
        forget = torch.sigmoid(state @ unit.forget.weight.T + unit.forget.bias)
        cell = forget * cell + (1 - forget) * (state @ unit.input.weight.T)
        outputs.append(functional.relu(cell))
    assert_close(unit(states), torch.stack(outputs, 1))


def test_relative_vectors_join_each_key_and_value() -> None:
    config = tiny_config(positions="relative_vectors", relative_max_distance=2)
    attention, states = randomised(Attention(config, to_self=True)), some_states()
    distances = torch.arange(5)[None, :] - torch.arange(5)[:, None]
    joined = []
    rows = distances.clamp(-2, 2) + 2
    (key_vectors, value_vectors) = (part.weight[rows] for part in attention.relative.children())
    queries, (keys, values) = attention.queries(states), attention.keys_values(states)
    for i in range(5):
        scores = (queries[:, :, i, None] * (keys + key_vectors[i])).sum(-1) / math.sqrt(8)
        joined.append((scores.softmax(-1)[..., None] * (values + value_vectors[i])).sum(2).flatten(1))
    expected = attention.output(torch.stack(joined, 1))
    assert_close(attention(states, states, None, distances=distances), expected, atol=1e-5, rtol=1e-5)


def test_a_gpu_never_uses_the_attention_of_cudnn_and_the_log_says_what_is_left(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    used = {"cudnn": True}
    kernels = torch.backends.cuda
    monkeypatch.setattr(kernels, "enable_cudnn_sdp", lambda enabled: used.update(cudnn=enabled))
    monkeypatch.setattr(kernels, "cudnn_sdp_enabled", lambda: used["cudnn"])
    with caplog.at_level(logging.INFO):
        choose_attention_kernels("cpu")
        assert used["cudnn"]
        choose_attention_kernels("cuda:1")
    assert not used["cudnn"]
    (message,) = caplog.messages
    assert message.startswith("attention on cuda:1 by one of: flash")
    assert "cuDNN" not in message


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
