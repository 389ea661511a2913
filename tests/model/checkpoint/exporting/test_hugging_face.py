"""Hugging Face's models compute what our network does, in every variant that they can hold."""

import pytest
import torch

from model.checkpoint.exporting.hugging_face import (
    check_holds,
    hugging_face_model,
    suitable_architecture,
)
from model.config import preset
from model.errors import ConfigError
from tests.model.tiny_networks import tiny_config, tiny_network

PRE = {"norm_position": "pre", "final_norm": True, "tie": "all"}
VOCABULARIES = {"source_vocab_size": 50, "target_vocab_size": 50}


@pytest.mark.parametrize(
    "variant",
    [
        {},
        *({"tie": tie} for tie in ("embeddings", "decoder", "all")),
        {"activation": "gelu_tanh"},
        *({name: False} for name in ("attention_bias", "ffn_bias")),
        {"sinusoid_layout": "halves"},
        {"activation": "gelu"},
        {"activation": "silu"},
        {"attention_bias": False, "ffn_bias": False, "norm_bias": False},
        {"output_bias": True},
        {"scale_embeddings": False},
        {"vocab_multiple": 8},
        PRE,
        PRE | {"attention_bias": False, "ffn_bias": False, "norm_bias": False, "output_bias": True},
        PRE | {"sinusoid_layout": "halves", "vocab_multiple": 8},
    ],
    ids=str,
)
@torch.inference_mode()
def test_logits_are_ours(variant: dict[str, object]) -> None:
    network = tiny_network(**variant)
    config = network.config
    theirs = hugging_face_model(network, suitable_architecture(config))
    source_NS = torch.tensor([[5, 6, 7, config.eos_id], [8, config.eos_id, config.pad_id, config.pad_id]])
    target_NT = torch.tensor([[config.decoder_start_id, 9, 10], [config.decoder_start_id, 11, 12]])
    produced = theirs(
        input_ids=source_NS, attention_mask=(source_NS != config.pad_id).long(), decoder_input_ids=target_NT
    ).logits
    torch.testing.assert_close(network(source_NS, target_NT), produced, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("architecture", "field", "variant"),
    [
        ("marian", "norm_position", PRE),
        ("marian", "norm_form", {"norm_form": "standard_deviation"}),
        ("marian", "norm_epsilon", {"norm_epsilon": 1e-6}),
        ("marian", "final_norm", {"final_norm": True}),
        ("marian", "positions", {"positions": "learned"}),
        ("marian", "embedding_norm", {"embedding_norm": True}),
        ("marian", "num_decoder_layers", {"num_decoder_layers": 0}),
        ("marian", "gated_ffn", {"gated_ffn": True}),
        ("marian", "attention_dim", {"attention_dim": 24}),
        ("marian", "attention_scale", {"attention_scale": 1.0}),
        ("marian", "sinusoid_offset", {"sinusoid_offset": 2}),
        ("marian", "sinusoid_endpoint", {"sinusoid_endpoint": True}),
        ("marian", "logit_scale", {"logit_scale": 0.5}),
        ("marian", "decoder_memory", {"decoder_memory": "ssru"}),
        ("pegasus", "norm_position", {"tie": "all"}),
        ("pegasus", "final_norm", PRE | {"final_norm": False}),
        ("pegasus", "tie", PRE | {"tie": "decoder"}),
    ],
)
def test_what_they_cannot_hold_is_refused_by_name(
    architecture: str, field: str, variant: dict[str, object]
) -> None:
    with pytest.raises(ConfigError, match=f"^`{field}` must be .* for {architecture}"):
        check_holds(architecture, tiny_config(**variant))


@pytest.mark.parametrize(
    ("architecture", "name"),
    [("marian", "base"), ("marian", "big"), ("marian", "postnorm"), ("marian", "d2l"), ("pegasus", "small")],
)
def test_the_presets_that_a_refusal_names_are_held(architecture: str, name: str) -> None:
    check_holds(architecture, preset(name, **VOCABULARIES))
