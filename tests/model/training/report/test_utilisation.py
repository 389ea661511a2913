import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from model.network.transformer import Transformer
from model.training.report.utilisation import measured_peak, operations_of_batch, operations_of_pair
from tests.model.tiny_networks import ids, tiny_config
from tests.model.training.optimisation.test_step import batch

SHAPE = tiny_config(attention_dropout=0.0)


@pytest.mark.parametrize(
    "variant", [{}, {"attention_dim": 24, "gated_ffn": True}, {"decoder_memory": "ssru"}], ids=str
)
@pytest.mark.parametrize("layers", [(2, 2), (4, 1), (0, 2)])
def test_products_are_counted_as_torch_counts_them(
    layers: tuple[int, int], variant: dict[str, object]
) -> None:
    """Backward is twice forward; torch counts scores that causality hides, and none of fused kernels."""
    shape = tiny_config(num_encoder_layers=layers[0], num_decoder_layers=layers[1], **variant)
    source, target = (5 if layers[0] else 0), 7
    with FlopCounterMode(display=False) as counter:
        Transformer(shape).eval().forward_with_attention(ids(1, source) if source else None, ids(1, target))
    attends = shape.decoder_memory == "attention"
    masked = attends * layers[1] * 2 * target * (target - 1) * shape.heads_dim
    assert operations_of_pair(shape, source, target) == 3 * (counter.get_total_flops() - masked)


def test_pairs_of_one_length_are_counted_exactly_and_others_a_little_low() -> None:
    even = batch(4, seed=1, length=6)
    assert operations_of_batch(SHAPE, even) == pytest.approx(4 * operations_of_pair(SHAPE, 4, 6))
    uneven = batch(4, seed=1, length=6, padding=3)
    exact = 3 * operations_of_pair(SHAPE, 4, 6) + operations_of_pair(SHAPE, 4, 3)
    assert exact * 0.99 < operations_of_batch(SHAPE, uneven) <= exact


def test_measuring_the_peak_draws_nothing_from_the_runs_generator() -> None:
    before = torch.get_rng_state()
    assert measured_peak(torch.device("cpu"), "float32") > 1e8
    assert torch.equal(torch.get_rng_state(), before)
