"""Networks of a few thousand weights, every one of them random, in evaluation mode."""

from typing import TypeVar

import torch
from torch import Tensor

from model.config import TransformerConfig
from model.network.decoder_state import FIRST_KV_SLOT, DecoderState, EncoderOutput
from model.network.transformer import Transformer

Network = TypeVar("Network", bound=torch.nn.Module)
SOURCE_VOCAB, TARGET_VOCAB = 23, 29

_TINY: dict[str, object] = {
    "source_vocab_size": SOURCE_VOCAB,
    "target_vocab_size": TARGET_VOCAB,
    "model_dim": 16,
    "num_heads": 2,
    "num_encoder_layers": 2,
    "num_decoder_layers": 2,
    "ffn_dim": 24,
    "max_positions": 16,
    "relative_buckets": 8,
    "relative_max_distance": 12,
}

FAMILY_FEATURES: list[dict[str, object]] = [
    {"norm_form": "root_mean_square", "norm_bias": False},
    {"activation": "gelu_tanh", "gated_ffn": True},
    {"attention_dim": 24, "attention_bias": False},
    {"attention_scale": 1.0, "positions": "relative"},
    {"ffn_bias": False},
    {"sinusoid_offset": 2},
    {"sinusoid_endpoint": True, "sinusoid_layout": "halves"},
    {"logit_scale": 0.25},
    {"embedding_norm": True, "embedding_norm_epsilon": 0.1},
    {"tie": "embeddings"},
    {"decoder_memory": "ssru"},
]
"""What models of other frameworks need, each on its own."""
T5: dict[str, object] = {
    "norm_position": "pre",
    "final_norm": True,
    "norm_form": "root_mean_square",
    "norm_bias": False,
    "activation": "gelu_tanh",
    "gated_ffn": True,
    "attention_dim": 24,
    "attention_scale": 1.0,
    "attention_bias": False,
    "ffn_bias": False,
    "positions": "relative",
    "scale_embeddings": False,
    "logit_scale": 0.25,
    "tie": "all",
}


def tiny_config(**overrides: object) -> TransformerConfig:
    """16 wide, 2 heads, 2 + 2 layers, vocabularies of 23 and 29 (29 and 29 where embeddings are tied)."""
    shared = {"source_vocab_size": TARGET_VOCAB} if overrides.get("tie") in ("all", "embeddings") else {}
    return TransformerConfig.from_dict({**_TINY, **shared, **overrides})


def tiny_network(**overrides: object) -> Transformer:
    """A network whose biases and norm weights are random too, so that a forgotten one shows."""
    return randomised(Transformer(tiny_config(**overrides)))


def randomised(network: Network, seed: int = 1) -> Network:
    """Draw every parameter anew, tied ones once, norm weights around 1; and switch to evaluation."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in network.parameters():
            around = parameter.mean().round()  # 1 for the weights of a norm, 0 for all others
            parameter.copy_(around + 0.2 * torch.randn(parameter.shape, generator=generator))
    return network.eval()


def ids(*shape: int, seed: int = 2, vocab_size: int = SOURCE_VOCAB) -> Tensor:
    """Random token ids without special ones."""
    return torch.randint(4, vocab_size, shape, generator=torch.Generator().manual_seed(seed))


def noise(*shape: int, seed: int = 3) -> Tensor:
    """Normally distributed numbers, the same ones for the same seed."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def started(
    network: Transformer,
    encoder_output: EncoderOutput | None,
    *,
    width: int,
    capacity: int,
    num_slots: int = 0,
) -> DecoderState:
    """A state of its own for sentences that start together; `num_slots` of them where there is no source."""
    mask_NS = (
        torch.zeros(num_slots, 0, dtype=torch.bool) if encoder_output is None else encoder_output.mask_NS
    )
    slots, source_length = mask_NS.shape
    num_target = slots * width * capacity
    kv_slots = torch.arange(num_target + slots * source_length) + FIRST_KV_SLOT
    state = DecoderState(
        network.new_pool(len(kv_slots)),
        network.position_tables(capacity),
        slots=slots,
        width=width,
        capacity=capacity,
        source_capacity=source_length,
    )
    target_kv_NKC = kv_slots[:num_target].view(slots, width, capacity)
    source_kv_NS = kv_slots[num_target:].view(slots, source_length)
    state.assign(torch.arange(slots), target_kv_NKC, source_kv_NS, mask_NS)
    if encoder_output is not None:
        network.cache_source(encoder_output, state, torch.arange(slots))
    return state
