"""The table of parameters is the real network's, for every preset and variant, in its order."""

import dataclasses
from collections.abc import Mapping

import pytest
import torch

from model.config import PRESETS, TransformerConfig
from model.network.parameters import count_parameters, parameter_names, parameter_shapes
from model.network.transformer import Transformer
from tests.model.tiny_networks import tiny_config

VARIANTS: list[Mapping[str, object]] = [
    {},
    *({"positions": kind} for kind in ("sinusoidal", "learned", "relative", "relative_vectors", "rotary")),
    *({"tie": tie} for tie in ("none", "decoder", "all")),
    *(
        {"norm_form": form, "norm_bias": bias}
        for form in ("variance", "standard_deviation", "root_mean_square")
        for bias in (False, True)
    ),
    *(
        {name: flag}
        for name in (
            *("final_norm", "attention_bias", "ffn_bias", "output_bias", "embedding_norm", "gated_ffn"),
        )
        for flag in (False, True)
    ),
    {"vocab_multiple": 64, "output_bias": True, "tie": "decoder"},
    *({"num_encoder_layers": 0, "tie": tie} for tie in ("none", "embeddings", "all")),
    *({"num_decoder_layers": 0, "tie": tie} for tie in ("none", "embeddings", "all")),
    {"tie": "embeddings", "source_vocab_size": 29},
    {"attention_dim": 40},
    *({"decoder_memory": "ssru", "positions": kind} for kind in ("sinusoidal", "relative")),
    {"num_encoder_layers": 3, "num_decoder_layers": 1, "norm_position": "pre", "activation": "silu"},
]


def check(config: TransformerConfig) -> None:
    with torch.device("meta"):
        network = Transformer(config)
    shapes = parameter_shapes(config)
    assert list(shapes.items()) == [(name, tuple(p.shape)) for name, p in network.named_parameters()]
    first: dict[int, str] = {}
    every = network.named_parameters(remove_duplicate=False)
    names = {name: first.setdefault(id(parameter), name) for name, parameter in every}
    assert list(parameter_names(config).items()) == list(names.items())
    assert count_parameters(shapes) == sum(parameter.numel() for parameter in network.parameters())


@pytest.mark.parametrize("name", PRESETS)
def test_of_presets(name: str) -> None:
    sizes = {"source_vocab_size": 100, "target_vocab_size": 100}
    check(TransformerConfig.from_dict({**sizes, **PRESETS[name]}))


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_of_variants(variant: Mapping[str, object]) -> None:
    check(tiny_config(**variant))


def test_no_variant_is_forgotten() -> None:
    """A field that is added to the configuration must be looked at here."""
    without_parameters = (
        "attention_scale activation norm_position norm_epsilon embedding_norm_epsilon sinusoid_layout "
        "sinusoid_offset sinusoid_endpoint relative_max_distance scale_embeddings logit_scale "
        "embedding_dropout attention_dropout ffn_dropout residual_dropout layer_drop initialisation "
        "pad_id bos_id eos_id unk_id decoder_start_id"
    )
    sizes = "source_vocab_size target_vocab_size model_dim num_heads ffn_dim max_positions relative_buckets"
    ignored = {*without_parameters.split(), *sizes.split()}
    varied = {name for variant in VARIANTS for name in variant}
    fields = {field.name for field in dataclasses.fields(TransformerConfig)}
    assert fields - ignored - varied == set()
