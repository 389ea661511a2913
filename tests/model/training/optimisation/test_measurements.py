import math
from pathlib import Path

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from model.errors import DivergenceError
from model.network.transformer import Transformer
from model.training.config_sections import BatchConfig
from model.training.optimisation.measurements import (
    Measurements,
    Update,
    expected_minutes,
    measured_peak,
    operations_of_batch,
    operations_of_pair,
)
from model.training.run import Run
from tests.model.tiny_networks import ids, tiny_config
from tests.model.training.optimisation.test_step import batch
from tests.model.training.tiny_runs import tiny_run

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


def test_rows_and_columns_of_padding_are_no_operations() -> None:
    exact = batch(17, seed=1, length=17)
    padded = exact.in_buckets(SHAPE.pad_id, 99, 99, BatchConfig())
    assert padded.labels_NT.shape == (18, 18)
    assert operations_of_batch(SHAPE, padded) == operations_of_batch(SHAPE, exact)


def test_measuring_the_peak_draws_nothing_from_the_runs_generator() -> None:
    before = torch.get_rng_state()
    assert measured_peak(torch.device("cpu"), "float32") > 1e8
    assert torch.equal(torch.get_rng_state(), before)


def update(loss: float, norm: float = 1.0, rate: float = 0.1) -> Update:
    losses = torch.tensor(loss), torch.tensor(loss / 2)
    return Update(*losses, torch.tensor(norm), rate, num_tokens=100, num_positions=125, operations=6e9)


def test_means_over_the_updates_since_the_last_reading() -> None:
    measurements = Measurements(forgives_overflow=False, peak=20e9)
    measurements.add(1, update(2.0, norm=1.0), seconds=0.5)
    measurements.add(2, update(4.0, norm=3.0, rate=0.2), seconds=0.5)
    values = measurements.read()
    assert values is not None
    assert (values["loss"], values["cross_entropy"], values["gradient_norm"]) == (3.0, 1.5, 2.0)
    assert values["learning_rate"] == 0.2
    assert values["tokens_per_second"] == pytest.approx(200, rel=0.05)
    assert values["padding_share"] == pytest.approx(0.2)
    assert values["mfu"] == pytest.approx(12 / 20, rel=0.05)
    assert measurements.read() is None


@pytest.mark.parametrize(
    ("loss", "norm", "message"),
    [
        (math.nan, 1.0, "at step 12: the loss is nan"),
        (math.inf, 1.0, "at step 12: the loss is inf"),
        (2.0, math.inf, "at step 12: the gradient norm is inf"),
    ],
)
def test_the_first_step_that_is_not_finite_is_named(loss: float, norm: float, message: str) -> None:
    measurements = Measurements(forgives_overflow=False, peak=20e9)
    for step, values in ((11, update(2.0)), (12, update(loss, norm)), (13, update(loss, norm))):
        measurements.add(step, values, seconds=0.1)
    with pytest.raises(DivergenceError, match=message):
        measurements.read()


def test_the_loss_scaler_takes_care_of_an_infinite_gradient() -> None:
    measurements = Measurements(forgives_overflow=True, peak=20e9)
    measurements.add(3, update(2.0, norm=math.inf), seconds=0.1)
    measurements.add(4, update(2.0, norm=3.0), seconds=0.1)
    values = measurements.read()
    assert values is not None
    assert values["gradient_norm"] == 3.0


@pytest.mark.parametrize(
    ("limits", "updates"),
    [
        ({"max_steps": 30}, 30),
        ({"max_steps": 0, "max_epochs": 2}, 20),
        ({"max_steps": 30, "max_epochs": 2}, 20),
    ],
)
def test_the_expected_time_is_that_of_the_products_at_half_of_the_peak(
    finished_run: Run, tmp_path: Path, limits: dict[str, int], updates: int
) -> None:
    pairs, shape = finished_run.data.pairs, finished_run.network.config
    config = tiny_run(tmp_path, run=limits)
    lengths = float(pairs.sources.lengths.mean()), float(pairs.targets.lengths.mean())
    per_update = operations_of_pair(shape, *lengths) * len(pairs) / 10
    found = expected_minutes(config, shape, pairs, updates_per_epoch=10, peak=1e9)
    assert found == pytest.approx(updates * per_update / 0.5e9 / 60)
