import math
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from model.network.initialisation import meta_init
from model.network.transformer import Transformer
from tests.model.tiny_networks import tiny_config

WIDTH, INNER = 64, 256


@pytest.fixture(autouse=True)
def _fixed_seed() -> None:
    torch.manual_seed(5)


def network(**overrides: object) -> Transformer:
    sizes = {"model_dim": WIDTH, "ffn_dim": INNER, "source_vocab_size": 400, "target_vocab_size": 300}
    return Transformer(tiny_config(**{**sizes, **overrides}))


def xavier_deviation(weight: Tensor) -> float:
    return math.sqrt(2 / sum(weight.shape))


def assert_deviation(weight: Tensor, expected: float) -> None:
    assert weight.std().item() == pytest.approx(expected, rel=0.06)
    assert abs(weight.mean().item()) < 0.1 * expected


def test_xavier_gives_every_projection_its_own_bound() -> None:
    ours = network(initialisation="xavier")
    for layer in (*ours.encoder.layers, *ours.decoder.layers):
        keys, values = layer.attention.key_value.weight.chunk(2)
        block = layer.feed_forward
        for weight in (keys, values, layer.attention.query.weight, block.input.weight, block.output.weight):
            assert_deviation(weight, xavier_deviation(weight))
            assert weight.abs().max() <= xavier_deviation(weight) * math.sqrt(3)  # it is uniform


def test_xavier_draws_tokens_so_that_scaling_gives_them_unit_variance() -> None:
    ours = network(initialisation="xavier")
    for embedding in (ours.source_embedding, ours.target_embedding):
        assert_deviation(embedding.tokens.weight * math.sqrt(WIDTH), 1.0)


@pytest.mark.parametrize(("encoder", "decoder"), [(2, 2), (4, 1), (0, 3)])
def test_normal_shrinks_what_is_written_to_the_residual_stream(encoder: int, decoder: int) -> None:
    ours = network(initialisation="normal", num_encoder_layers=encoder, num_decoder_layers=decoder)
    written = 0.02 / math.sqrt(2 * (encoder + decoder))
    for layer in ours.decoder.layers:
        attentions = [layer.attention, layer.cross] if encoder else [layer.attention]
        for attention in attentions:
            assert_deviation(attention.output.weight, written)
            assert_deviation(attention.query.weight, 0.02)
            assert_deviation(attention.key_value.weight, 0.02)
        assert_deviation(layer.feed_forward.output.weight, written)
        assert_deviation(layer.feed_forward.input.weight, 0.02)


def test_normal_draws_embeddings_and_the_output_with_the_plain_deviation() -> None:
    ours = network(initialisation="normal", positions="learned", max_positions=128)
    for weight in (
        ours.source_embedding.tokens.weight,
        ours.target_embedding.tokens.weight,
        ours.target_embedding.positions.weight,
        ours.output.weight,
    ):
        assert_deviation(weight, 0.02)


@pytest.mark.parametrize("initialisation", ["xavier", "normal"])
def test_biases_start_at_0_and_norms_at_the_identity(initialisation: str) -> None:
    ours = network(initialisation=initialisation, output_bias=True, final_norm=True, embedding_norm=True)
    for name, parameter in ours.named_parameters():
        if name.endswith("bias"):
            assert not parameter.any()
        elif "norm" in name:
            assert torch.equal(parameter, torch.ones_like(parameter))


@pytest.mark.parametrize("initialisation", ["xavier", "normal"])
def test_a_seed_decides_everything(initialisation: str) -> None:
    drawn = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        drawn.append(nn.utils.parameters_to_vector(network(initialisation=initialisation).parameters()))
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])


ROOT = Path(__file__).parents[3]
LOADING = """
import sys
from pathlib import Path
from model.checkpoint.folder import load_checkpoint
load_checkpoint(Path(sys.argv[1])).network()
print([name for name in ("torch._dynamo", "sympy") if name in sys.modules])
"""


def test_it_has_the_shape_of_a_real_one() -> None:
    with meta_init():
        network = Transformer(tiny_config())
    shapes = {name: value.shape for name, value in network.state_dict().items()}
    assert shapes == {name: value.shape for name, value in Transformer(tiny_config()).state_dict().items()}
    assert {parameter.device.type for parameter in network.parameters()} == {"meta"}


@pytest.mark.parametrize("draw", [nn.init.normal_, nn.init.uniform_, nn.init.kaiming_uniform_])
def test_nothing_is_drawn_inside_and_everything_outside(draw: object) -> None:
    weight = torch.full((2, 2), 7.0)
    with meta_init():
        assert draw(tensor=weight) is weight  # type: ignore[operator]
    assert weight.eq(7).all()
    draw(weight)  # type: ignore[operator]
    assert not weight.eq(7).all()


def test_loading_leaves_pytorchs_compiler_alone(tiny_checkpoint: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-c", LOADING, str(tiny_checkpoint)],
        cwd=ROOT, capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    assert result.stdout.strip() == "[]"
