import dataclasses
import json

import pytest
import torch

from model.config import PRESETS, TransformerConfig, preset
from model.errors import ConfigError
from model.network.parameters import count_parameters, parameter_shapes
from model.network.transformer import Transformer
from tests.model.tiny_networks import ids

SIZES = {"source_vocab_size": 100, "target_vocab_size": 200}
ONE_WIDE = {"model_dim": 1, "num_heads": 1, "positions": "relative"}

BAD_VALUES: dict[str, tuple[object, ...]] = {
    "source_vocab_size": (0, -1, 1.5, "100", None, True),
    "target_vocab_size": (0, -1, 1.5, "200", None),
    "model_dim": (0, -8, 64.0, "64"),
    "num_heads": (0, -1, 3, 2.0),
    "attention_dim": (0, -8, 64.0, True),
    "attention_scale": (0, -1.0, float("nan"), "1"),
    "num_encoder_layers": (-1, 1.0, None, 1001),
    "num_decoder_layers": (-1, "6", False),
    "decoder_memory": ("lstm", None),
    "ffn_dim": (0, 1.5),
    "activation": ("tanh", None, 1),
    "gated_ffn": (1, "swiglu"),
    "norm_position": ("before", True),
    "final_norm": (1, "yes", None),
    "norm_bias": (0, "no"),
    "norm_epsilon": (0, -1e-5, 2, float("nan"), "small"),
    "norm_form": ("rms", None),
    "attention_bias": (1, "true"),
    "ffn_bias": (0, None),
    "output_bias": (0, None),
    "positions": ("alibi", None),
    "sinusoid_layout": ("pairs", None),
    "sinusoid_offset": (-1, 2.0, 2**31),
    "sinusoid_endpoint": (1, None),
    "relative_buckets": (3, 8.0),
    "relative_max_distance": (31, "far"),
    "max_positions": (0, -5, 10.0),
    "embedding_norm": (1, "yes"),
    "embedding_norm_epsilon": (0, -1e-5, 2, "small"),
    "scale_embeddings": (1, 22.6),
    "logit_scale": (0, -1, float("inf"), True),
    "tie": ("both", None, True),
    "vocab_multiple": (0, 1.5),
    "embedding_dropout": (1, -0.1, 1.1, float("nan"), "0.1", True),
    "attention_dropout": (1, -0.1, 1.1, float("inf")),
    "ffn_dropout": (1, -0.1, 2),
    "residual_dropout": (1, -1, 1.01),
    "layer_drop": (1, -0.5, 1.5),
    "initialisation": ("kaiming", None),
    "pad_id": (-1, 100, 0.0),
    "bos_id": (-1, 100, None),
    "eos_id": (-1, 100, "3"),
    "unk_id": (-1, 100, None),
    "decoder_start_id": (-1, 100, 2.0),
}
VOCABULARY = 1000


def test_every_field_has_bad_values_here() -> None:
    assert list(BAD_VALUES) == [field.name for field in dataclasses.fields(TransformerConfig)]


@pytest.mark.parametrize(("field", "value"), [(f, v) for f, values in BAD_VALUES.items() for v in values])
def test_a_bad_value_is_refused_by_its_fields_name(field: str, value: object) -> None:
    with pytest.raises(ConfigError, match=f"`{field}` must be .+, but is .+ instead") as caught:
        TransformerConfig.from_dict({**SIZES, field: value})
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("num_heads", {"model_dim": 30, "num_heads": 4}),
        ("num_heads", {"positions": "rotary", "model_dim": 12, "num_heads": 4}),
        ("num_heads", {"attention_dim": 30, "num_heads": 4}),
        ("num_heads", {"positions": "rotary", "attention_dim": 12, "num_heads": 4}),
        ("model_dim", {"model_dim": 2, "num_heads": 1, "sinusoid_endpoint": True}),
        ("model_dim", {"model_dim": 5, "num_heads": 5}),
        ("model_dim", {**ONE_WIDE, "norm_form": "standard_deviation"}),
        ("num_encoder_layers", {"num_encoder_layers": 0, "num_decoder_layers": 0}),
        ("relative_max_distance", {"relative_buckets": 64, "relative_max_distance": 63}),
        ("relative_max_distance", {"relative_max_distance": 10**400}),
        ("pad_id", {"pad_id": 3}),
        ("tie", {"tie": "all"}),
        ("tie", {"tie": "embeddings"}),
        ("linear_bias", {"linear_bias": 1}),
    ],
)
def test_values_that_cannot_work_together_are_refused(field: str, values: dict[str, object]) -> None:
    with pytest.raises(ConfigError) as caught:
        TransformerConfig.from_dict({**SIZES, **values})
    assert caught.value.field == field


def test_relative_vectors_need_no_bucket() -> None:
    values = {**SIZES, "positions": "relative_vectors"}
    assert TransformerConfig.from_dict({**values, "relative_max_distance": 1}).relative_max_distance == 1
    with pytest.raises(ConfigError, match="`relative_max_distance` must be"):
        TransformerConfig.from_dict({**values, "relative_max_distance": 0})


@pytest.mark.parametrize(
    ("positions", "model_dim", "num_heads"), [("learned", 5, 5), ("relative", 5, 1), ("rotary", 6, 3)]
)
def test_widths_that_only_sinusoids_forbid(positions: str, model_dim: int, num_heads: int) -> None:
    values = {"positions": positions, "model_dim": model_dim, "num_heads": num_heads}
    assert TransformerConfig.from_dict({**SIZES, **values}).head_dim == model_dim // num_heads


def test_a_dictionary_and_json_keep_everything() -> None:
    config = TransformerConfig(
        **SIZES, positions="rotary", tie="decoder", norm_epsilon=1e-12, ffn_dropout=0.25, attention_bias=False
    )
    assert TransformerConfig.from_dict(config.to_dict()) == config
    assert TransformerConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


@pytest.mark.parametrize("value", [True, False])
def test_linear_bias_of_earlier_releases_sets_both_biases(value: bool) -> None:
    config = TransformerConfig.from_dict({**SIZES, "linear_bias": value})
    assert (config.attention_bias, config.ffn_bias) == (value, value)
    mixed = TransformerConfig.from_dict({**SIZES, "linear_bias": value, "ffn_bias": not value})
    assert (mixed.attention_bias, mixed.ffn_bias) == (value, not value)


def test_an_unknown_key_is_refused_by_name() -> None:
    with pytest.raises(
        ConfigError, match=r"`n_head` must be one of num_heads \(the nearest name\), .*, but is 8 instead"
    ):
        TransformerConfig.from_dict({**SIZES, "n_head": 8})


@pytest.mark.parametrize("field", SIZES)
def test_a_missing_vocabulary_size_is_refused_by_name(field: str) -> None:
    with pytest.raises(ConfigError, match=f"`{field}` must be given, but is missing"):
        TransformerConfig.from_dict({name: size for name, size in SIZES.items() if name != field})


@pytest.mark.parametrize(
    ("size", "multiple", "rows"), [(100, 1, 100), (100, 64, 128), (128, 64, 128), (1, 64, 64)]
)
def test_vocabulary_rows_are_rounded_up(size: int, multiple: int, rows: int) -> None:
    assert TransformerConfig(**SIZES, vocab_multiple=multiple).padded(size) == rows


def test_what_is_never_produced_leaves_the_end_even_where_decoding_starts_with_it() -> None:
    config = TransformerConfig(source_vocab_size=20, target_vocab_size=20)
    assert config.never_produced() == [0, 2]
    assert config.never_produced((9, 2, 4)) == [0, 2, 4, 9]
    assert dataclasses.replace(config, decoder_start_id=3).never_produced() == [0, 2]


def of_any_vocabulary(name: str, **overrides: object) -> TransformerConfig:
    return preset(name, **{"source_vocab_size": VOCABULARY, "target_vocab_size": VOCABULARY, **overrides})


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_runs(name: str) -> None:
    depths = {f"num_{stack}_layers" for stack in ("encoder", "decoder")}
    shallow = {depth: 1 for depth in depths if PRESETS[name].get(depth) != 0}
    config = of_any_vocabulary(name, max_positions=16, **shallow)
    network, source_NS = Transformer(config).eval(), ids(2, 5, vocab_size=VOCABULARY)
    with torch.inference_mode():
        if config.num_decoder_layers == 0:
            assert network.encode(source_NS).states_NSM.shape == (2, 5, config.model_dim)
        else:
            source = source_NS if config.num_encoder_layers else None
            assert network(source, ids(2, 7, vocab_size=VOCABULARY)).shape == (2, 7, VOCABULARY)


@pytest.mark.parametrize(("name", "millions"), [("base", 63.1), ("big", 214.2)])
def test_parameter_counts_come_close_to_the_papers(name: str, millions: float) -> None:
    """65 and 213 million in table 3, whose English-German vocabulary has about 37000 pieces."""
    with torch.device("meta"):
        network = Transformer(preset(name, source_vocab_size=37000, target_vocab_size=37000))
    assert network.num_parameters() / 1e6 == pytest.approx(millions, abs=0.1)


def test_minGPTs_count() -> None:  # noqa: N802
    """The gpt-nano of karpathy/minGPT has 0.09 million parameters in its layers."""
    with torch.device("meta"):
        network = Transformer(of_any_vocabulary("gpt-nano"))
    layers = 3 * (4 * 48 * 48 + 4 * 48 + 2 * 48 * 192 + 192 + 48 + 2 * 2 * 48)
    assert network.num_parameters(embeddings=False) == layers + 2 * 48


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"`preset` must be one of base, big, .*, but is 'huge' instead"):
        preset("huge")


def test_a_checkpoint_of_an_earlier_preset_keeps_its_network() -> None:
    """`nanogpt` as earlier releases wrote it to config.json."""
    earlier: dict[str, object] = {
        "source_vocab_size": 1024,
        "target_vocab_size": 1024,
        "model_dim": 384,
        "num_heads": 6,
        "ffn_dim": 1536,
        "activation": "gelu",
        "norm_position": "pre",
        "final_norm": True,
        "norm_bias": False,
        "linear_bias": False,
        "positions": "learned",
        "scale_embeddings": False,
        "tie": "decoder",
        "vocab_multiple": 64,
        "initialisation": "normal",
        "attention_dropout": 0.1,
    }
    shapes = parameter_shapes(TransformerConfig.from_dict(earlier))
    layers = 6 * (4 + 8) * 384**2 + 12 * 2 * 384 * 1536 + (6 * 2 + 6 * 3 + 2) * 384
    assert count_parameters(shapes) == layers + 2 * 1024 * 384 + 2 * 512 * 384
