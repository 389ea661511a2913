"""The same weights give T5's relative bias: both directions in the encoder, the past alone in the decoder."""

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close
from transformers.models.t5.configuration_t5 import T5Config
from transformers.models.t5.modeling_t5 import T5Attention

from model.network.transformer import Stack
from tests.model.reference_networks import copy
from tests.model.tiny_networks import noise, randomised, tiny_network

LENGTH = 20


def t5_bias(is_decoder: bool) -> T5Attention:
    config = T5Config(
        d_model=16,
        d_kv=8,
        num_heads=2,
        relative_attention_num_buckets=8,
        relative_attention_max_distance=12,
        is_decoder=is_decoder,
    )
    return randomised(T5Attention(config, has_relative_attention_bias=True, layer_idx=0))


def our_bias(stack: Stack) -> Tensor:
    mask = stack._view(noise(1, LENGTH, 16), None).mask
    assert mask is not None
    return mask


@pytest.mark.parametrize("is_decoder", [True, False])
@torch.inference_mode()
def test_the_bias_is_t5s(is_decoder: bool) -> None:
    network, theirs = tiny_network(positions="relative"), t5_bias(is_decoder)
    stack = network.decoder if is_decoder else network.encoder
    copy(stack.relative_bias, theirs.relative_attention_bias)
    expected = theirs.compute_bias(LENGTH, LENGTH)
    if is_decoder:
        future = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
        expected = expected.masked_fill(future, float("-inf"))
    assert_close(our_bias(stack), expected)
