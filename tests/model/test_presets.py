import pytest
import torch

from model.config import TransformerConfig
from model.errors import ConfigError
from model.network.parameters import count_parameters, parameter_shapes
from model.network.transformer import Transformer
from model.presets import PRESETS, preset
from tests.model.tiny_networks import ids

VOCABULARY = 1000


def of_any_vocabulary(name: str, **overrides: object) -> TransformerConfig:
    return preset(name, **{"source_vocab_size": VOCABULARY, "target_vocab_size": VOCABULARY, **overrides})


def shape(config: TransformerConfig) -> tuple[int, ...]:
    layers = config.num_encoder_layers, config.num_decoder_layers
    return (*layers, config.num_heads, config.model_dim, config.ffn_dim)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("base", (6, 6, 8, 512, 2048)),
        ("big", (6, 6, 16, 1024, 4096)),
        ("small", (4, 2, 4, 256, 1024)),
        ("nanogpt", (6, 6, 6, 384, 1536)),
        ("postnorm", (6, 6, 8, 512, 1024)),
        ("bert", (12, 0, 12, 768, 3072)),
        ("annotated", (6, 6, 8, 512, 2048)),
        ("d2l", (2, 2, 4, 32, 64)),
        ("gpt-nano", (0, 3, 3, 48, 192)),
        ("gpt-micro", (0, 4, 4, 128, 512)),
        ("gpt-mini", (0, 6, 6, 192, 768)),
    ],
)
def test_published_sizes(name: str, expected: tuple[int, ...]) -> None:
    assert shape(of_any_vocabulary(name)) == expected


def test_no_preset_is_left_out_above() -> None:
    cases = test_published_sizes.pytestmark[0].args[1]
    assert [name for name, _ in cases] == list(PRESETS)


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


def test_the_post_norm_tutorials_shapes() -> None:
    network = Transformer(preset("postnorm")).eval()
    with torch.inference_mode():
        logits_NTV = network(ids(4, 64, vocab_size=100), ids(4, 64, vocab_size=200))
    assert logits_NTV.shape == (4, 64, 200)
    assert all(
        "norm" in name or name == "output.bias" for name, _ in network.named_parameters() if "bias" in name
    )


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


def test_a_preset_without_vocabulary_asks_for_it() -> None:
    with pytest.raises(ConfigError, match="`source_vocab_size` must be given"):
        preset("base")


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
