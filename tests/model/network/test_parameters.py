"""The table of parameters is the real network's, for every preset and variant, in its order."""

import dataclasses
from collections.abc import Mapping

import pytest
import torch
from torch.testing import assert_close

from model.config import PRESETS, TransformerConfig
from model.network.parameters import count_parameters, parameter_names, parameter_shapes
from model.network.transformer import Transformer
from tests.model.tiny_networks import SOURCE_VOCAB, TARGET_VOCAB, ids, started, tiny_config, tiny_network

VARIANTS: list[Mapping[str, object]] = [
    {},
    *({"positions": kind} for kind in ("learned", "relative", "relative_vectors", "rotary")),
    *({"tie": tie} for tie in ("none", "decoder", "all")),
    *(
        {"norm_form": form, "norm_bias": bias}
        for form in ("variance", "standard_deviation", "root_mean_square")
        for bias in (False, True)
    ),
    *({name: True} for name in ("final_norm", "output_bias", "embedding_norm", "gated_ffn")),
    *({name: False} for name in ("attention_bias", "ffn_bias")),
    {"vocab_multiple": 64, "output_bias": True, "tie": "decoder"},
    *({"num_encoder_layers": 0, "tie": tie} for tie in ("none", "embeddings", "all")),
    *({"num_decoder_layers": 0, "tie": tie} for tie in ("none", "embeddings", "all")),
    {"tie": "embeddings", "source_vocab_size": 29},
    {"attention_dim": 40},
    *({"decoder_memory": "ssru", "positions": kind} for kind in ("sinusoidal", "relative")),
    {"num_encoder_layers": 3, "num_decoder_layers": 1, "norm_position": "pre", "activation": "silu"},
]
TIES = pytest.mark.parametrize("tie", ["none", "embeddings", "decoder", "all"])


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


def distinct_tensors(network: Transformer) -> int:
    weights = (network.source_embedding.tokens, network.target_embedding.tokens, network.output)
    return len({weight.weight.data_ptr() for weight in weights})


@pytest.mark.parametrize(
    ("tie", "tensors", "rows"),
    [("none", 3, 23 + 29 + 29), ("embeddings", 2, 29 + 29), ("decoder", 2, 23 + 29), ("all", 1, 29)],
)
def test_tied_tensors_are_one_tensor_and_counted_once(tie: str, tensors: int, rows: int) -> None:
    network = tiny_network(tie=tie)
    assert distinct_tensors(network) == tensors
    vocabulary = network.num_parameters() - network.num_parameters(embeddings=False)
    assert vocabulary == rows * network.config.model_dim


def test_target_embedding_and_output_add_their_gradients() -> None:
    tied, separate = tiny_network(tie="decoder"), tiny_network(tie="none")
    separate.load_state_dict(tied.state_dict())
    source_NS, target_NT = ids(2, 5), ids(2, 6)
    for network in (tied, separate):
        network(source_NS, target_NT).square().mean().backward()
    both = separate.output.weight.grad + separate.target_embedding.tokens.weight.grad
    assert_close(tied.output.weight.grad, both, atol=1e-4, rtol=1e-4)


@TIES
@pytest.mark.parametrize("assign", [True, False])
def test_a_state_dict_comes_back_and_stays_tied(tie: str, assign: bool) -> None:
    """Assigning loads tensors from a file without a copy; it separates tied ones until they are tied anew."""
    network, other = tiny_network(tie=tie), Transformer(tiny_config(tie=tie)).eval()
    weights = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    other.load_state_dict(weights, assign=assign)
    other.tie_weights()
    assert distinct_tensors(other) == distinct_tensors(network)
    assert torch.equal(other(ids(2, 5), ids(2, 6)), network(ids(2, 5), ids(2, 6)))


@TIES
@torch.inference_mode()
def test_padded_ids_are_never_in_the_logits(tie: str) -> None:
    network = tiny_network(tie=tie, vocab_multiple=64, output_bias=True)
    assert network.output.weight.shape == (64, 16)
    assert network.target_embedding.tokens.weight.shape == (64, 16)
    network.output.weight[TARGET_VOCAB:] = 100.0
    network.output.bias[TARGET_VOCAB:] = 100.0
    source_NS, target_NT = ids(2, 5), ids(2, 6)
    assert network(source_NS, target_NT).shape == (2, 6, TARGET_VOCAB)
    state = started(network, network.encode(source_NS), width=3, capacity=1)
    assert network.decode_step(ids(2, 3), state).shape == (2, 3, TARGET_VOCAB)


@torch.inference_mode()
def test_rows_that_fill_a_multiple_change_no_logit() -> None:
    filled, exact = tiny_network(vocab_multiple=64), tiny_network()
    sizes = {"source_embedding.tokens": SOURCE_VOCAB, "target_embedding.tokens": TARGET_VOCAB}
    weights = filled.state_dict()
    for name, size in {**sizes, "output": TARGET_VOCAB}.items():
        weights[f"{name}.weight"] = weights[f"{name}.weight"][:size]
    exact.load_state_dict(weights)
    assert_close(filled(ids(2, 5), ids(2, 6)), exact(ids(2, 5), ids(2, 6)), atol=1e-6, rtol=0)
