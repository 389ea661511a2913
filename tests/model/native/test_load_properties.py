"""Any network is loaded and translates, or is refused: nothing that Python passes makes the library crash.

`make sanitize-load` runs this under AddressSanitizer, which sees an index that is out of bounds.
"""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.checkpoint.weights import StoredTensor
from model.config import TransformerConfig
from model.decoding.factory import torch_engine
from model.decoding.native_runner import LONGEST_INT8_SUM, NativeNetwork
from model.errors import ConfigError, NativeError
from model.native.binding import runnable_variants
from model.network.parameters import parameter_shapes
from model.network.transformer import Transformer
from tests.model.decoding.networks import request
from tests.model.native_library import (
    engine_over,
    native_library,
    native_network,
    needs_native,
    stored_weights,
)
from tests.model.tiny_networks import randomised, tiny_config

pytestmark = needs_native

PRECISIONS = ("float32", "bfloat16", "int8")


@st.composite
def configs(draw: st.DrawFn) -> TransformerConfig:
    """Configurations of every variant, with sizes that are no multiples of anything."""
    num_heads, head_dim = draw(st.integers(1, 5)), draw(st.integers(1, 19))
    tie = draw(st.sampled_from(["none", "decoder", "all", "embeddings"]))
    source_size = draw(st.integers(5, 70))
    fields: dict[str, object] = {
        "source_vocab_size": source_size,
        "target_vocab_size": source_size if tie in ("all", "embeddings") else draw(st.integers(5, 70)),
        "tie": tie,
        "num_heads": num_heads,
        "attention_dim": num_heads * head_dim,
        "model_dim": draw(st.integers(1, 70)),
        "ffn_dim": draw(st.integers(1, 140)),
        "num_encoder_layers": draw(st.integers(1, 2)),
        "num_decoder_layers": draw(st.integers(1, 2)),
        "max_positions": draw(st.integers(4, 40)),
        "relative_buckets": draw(st.integers(4, 12)),
        "relative_max_distance": draw(st.integers(1, 20)),
        "vocab_multiple": draw(st.sampled_from([1, 8])),
        "positions": draw(
            st.sampled_from(["sinusoidal", "learned", "relative", "rotary", "relative_vectors"])
        ),
        "activation": draw(st.sampled_from(["relu", "gelu", "silu", "gelu_tanh"])),
        "norm_form": draw(st.sampled_from(["variance", "standard_deviation", "root_mean_square"])),
        "norm_position": draw(st.sampled_from(["pre", "post"])),
        "decoder_memory": draw(st.sampled_from(["attention", "ssru"])),
        "sinusoid_layout": draw(st.sampled_from(["interleaved", "halves"])),
    }
    for flag in ("final_norm", "norm_bias", "attention_bias", "ffn_bias", "gated_ffn", "embedding_norm"):
        fields[flag] = draw(st.booleans())
    try:
        return TransformerConfig.from_dict(fields)
    except ConfigError:
        # Sizes that the positions or norms of the draw cannot have.
        plain = {"positions": "learned", "model_dim": 12, "relative_max_distance": 20}
        return TransformerConfig.from_dict(fields | plain)


@st.composite
def damages(draw: st.DrawFn, config: TransformerConfig) -> tuple[str, StoredTensor | None]:
    """The name of a tensor that the library reads, and what stands in its place; None if nothing does."""
    shapes = parameter_shapes(config)
    name = draw(st.sampled_from(sorted(shapes)))
    shape = list(shapes[name])
    kind = draw(st.sampled_from(["missing", "larger", "smaller", "deeper", "float64", "strided"]))
    if kind == "missing":
        return name, None
    if kind == "deeper":
        return name, StoredTensor(np.zeros((1, *shape), np.float32), "float32")
    if kind == "float64":
        return name, StoredTensor(np.zeros(shape), "float32")
    if kind == "strided":
        return name, StoredTensor(np.zeros((*shape, 2), np.float32)[..., 0], "float32")
    place = draw(st.integers(0, len(shape) - 1))
    shape[place] += 1 if kind == "larger" else -1
    return name, StoredTensor(np.zeros(shape, np.float32), "float32")


@settings(max_examples=60)
@given(config=configs(), precision=st.sampled_from(PRECISIONS), variant=st.sampled_from(runnable_variants()))
def test_any_network_translates(config: TransformerConfig, precision: str, variant: str) -> None:
    torch_network = randomised(Transformer(config))
    network = native_network(torch_network, precision, library=native_library(variant))
    asked = [request((4, config.eos_id, 3), max_length=4, strategy="beam", beam_size=2)]
    (found,) = engine_over(network).decode(asked)[0]
    assert all(0 <= token < config.target_vocab_size for token in found.token_ids)
    if precision == "float32":
        (expected,) = torch_engine(torch_network).decode(asked)[0]
        assert found.score == pytest.approx(expected.score, abs=1e-3)


@settings(max_examples=60)
@given(data=st.data(), config=configs(), precision=st.sampled_from(PRECISIONS))
def test_a_tensor_of_another_kind_is_named(
    data: st.DataObject, config: TransformerConfig, precision: str
) -> None:
    weights = stored_weights(Transformer(config))
    name, damaged = data.draw(damages(config))
    weights.pop(name)
    if damaged is not None:
        weights[name] = damaged
    with pytest.raises(NativeError, match=re.escape(repr(name))):
        NativeNetwork(config, weights, precision)


@pytest.mark.parametrize("wide", ["model_dim", "attention_dim", "ffn_dim"])
def test_sums_that_could_overflow_are_refused(wide: str) -> None:
    config = tiny_config(**{wide: LONGEST_INT8_SUM + 1})
    with pytest.raises(NativeError, match=f"int8 sums of up to {LONGEST_INT8_SUM} products"):
        NativeNetwork(config, {}, "int8")
