"""The same weights give the same logits as the families of models that Hugging Face's library holds."""

from collections.abc import Callable

import pytest
import torch
from torch.testing import assert_close
from transformers import PreTrainedModel
from transformers.models.m2m_100.configuration_m2m_100 import M2M100Config
from transformers.models.m2m_100.modeling_m2m_100 import M2M100ForConditionalGeneration
from transformers.models.marian.configuration_marian import MarianConfig
from transformers.models.marian.modeling_marian import MarianMTModel
from transformers.models.mbart.configuration_mbart import MBartConfig
from transformers.models.mbart.modeling_mbart import MBartForConditionalGeneration
from transformers.models.mt5.configuration_mt5 import MT5Config
from transformers.models.mt5.modeling_mt5 import MT5ForConditionalGeneration
from transformers.models.t5.configuration_t5 import T5Config
from transformers.models.t5.modeling_t5 import T5ForConditionalGeneration

from model.network.transformer import Transformer
from tests.model.reference_networks import copy_bart, copy_t5
from tests.model.tiny_networks import T5, ids, randomised, started, tiny_config

VOCAB = 29
_BART = {
    "vocab_size": VOCAB,
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
    "max_position_embeddings": 30,
    "scale_embedding": True,
    "pad_token_id": 1,
}
_T5 = {
    "vocab_size": VOCAB,
    "d_model": 16,
    "d_kv": 12,
    "num_heads": 2,
    "num_layers": 2,
    "num_decoder_layers": 3,
    "d_ff": 24,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 12,
    "pad_token_id": 0,
}
_DEEPER: dict[str, object] = {"num_decoder_layers": 3, "source_vocab_size": VOCAB}
_PRE_NORM = _DEEPER | {"norm_position": "pre", "final_norm": True, "tie": "all"}


def t5(**values: object) -> T5ForConditionalGeneration:
    return T5ForConditionalGeneration(T5Config(**_T5, **values))  # type: ignore[arg-type]


def mt5() -> MT5ForConditionalGeneration:
    return MT5ForConditionalGeneration(MT5Config(**_T5))  # type: ignore[arg-type]


def marian() -> MarianMTModel:
    network = MarianMTModel(MarianConfig(**_BART, activation_function="swish", decoder_start_token_id=1))  # type: ignore[arg-type]
    for stack in (network.model.encoder, network.model.decoder):
        # Sinusoids, which are never trained: `randomised` would draw them anew.
        positions = stack.embed_positions.weight.detach()
        del stack.embed_positions.weight
        stack.embed_positions.register_buffer("weight", positions)
    return network


def m2m100() -> M2M100ForConditionalGeneration:
    return M2M100ForConditionalGeneration(M2M100Config(**_BART))  # type: ignore[arg-type]


def mbart() -> MBartForConditionalGeneration:
    return MBartForConditionalGeneration(MBartConfig(**_BART, activation_function="gelu"))  # type: ignore[arg-type]


FAMILIES: dict[str, tuple[Callable[[], PreTrainedModel], dict[str, object]]] = {
    "T5": (t5, {**T5, **_DEEPER, "activation": "relu", "gated_ffn": False}),
    "T5 1.1": (
        lambda: t5(feed_forward_proj="gated-gelu", tie_word_embeddings=False, scale_decoder_outputs=False),
        {**T5, **_DEEPER, "logit_scale": 1.0, "tie": "embeddings"},
    ),
    "Flan-T5 with SiLU": (
        lambda: t5(feed_forward_proj="gated-silu"),
        {**T5, **_DEEPER, "activation": "silu"},
    ),
    "mT5": (mt5, {**T5, **_DEEPER, "logit_scale": 1.0, "tie": "embeddings"}),
    "Marian": (
        marian,
        {**_DEEPER, "activation": "silu", "sinusoid_layout": "halves", "output_bias": True, "tie": "all"},
    ),
    "M2M100": (
        m2m100,
        {**_PRE_NORM, "sinusoid_layout": "halves", "sinusoid_offset": 2, "sinusoid_endpoint": True},
    ),
    "mBART": (
        mbart,
        {
            **_PRE_NORM,
            "activation": "gelu",
            "positions": "learned",
            "max_positions": 30,
            "embedding_norm": True,
            "output_bias": True,
        },
    ),
}


def pair_of(family: str) -> tuple[Transformer, PreTrainedModel]:
    """Ours and theirs with the same random weights."""
    build, values = FAMILIES[family]
    theirs = randomised(build())
    if values.get("output_bias"):
        theirs.final_logits_bias.normal_()
    epsilon = getattr(theirs.config, "layer_norm_epsilon", 1e-5)
    ours = Transformer(
        tiny_config(**{**values, "pad_id": theirs.config.pad_token_id, "norm_epsilon": epsilon})
    ).eval()
    (copy_t5 if hasattr(theirs.config, "d_kv") else copy_bart)(ours, theirs)
    return ours, theirs


@pytest.mark.parametrize("family", FAMILIES)
@torch.inference_mode()
def test_logits_and_those_of_cached_steps_are_theirs(family: str) -> None:
    ours, theirs = pair_of(family)
    source_NS, target_NT = ids(3, 7), ids(3, 11)
    source_NS[2, 5:] = ours.config.pad_id
    if family not in ("M2M100", "mBART"):
        target_NT[:, 0] = ours.config.pad_id  # with which T5 and Marian begin
    mask_NS = (source_NS != ours.config.pad_id).long()
    expected = theirs(input_ids=source_NS, attention_mask=mask_NS, decoder_input_ids=target_NT).logits
    assert_close(ours(source_NS, target_NT), expected, atol=1e-5, rtol=1e-5)
    state = started(ours, ours.encode(source_NS), width=1, capacity=11)
    steps = [ours.decode_step(target_NT[:, t, None], state)[:, 0] for t in range(11)]
    assert_close(torch.stack(steps, 1), expected, atol=1e-5, rtol=1e-5)
