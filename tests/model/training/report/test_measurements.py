import math

import pytest
import torch

from model.errors import DivergenceError
from model.training.report.measurements import Measurements
from model.training.step import Update


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


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_the_first_step_that_is_not_finite_is_named(loss: float) -> None:
    measurements = Measurements(forgives_overflow=False, peak=20e9)
    for step, value in ((11, 2.0), (12, loss), (13, math.nan)):
        measurements.add(step, update(value), seconds=0.1)
    with pytest.raises(DivergenceError, match=r"at step 12: the loss is (nan|inf)"):
        measurements.read()


def test_an_infinite_gradient_is_divergence() -> None:
    measurements = Measurements(forgives_overflow=False, peak=20e9)
    measurements.add(3, update(2.0, norm=math.inf), seconds=0.1)
    with pytest.raises(DivergenceError, match="at step 3: the gradient norm is inf"):
        measurements.read()


def test_unless_the_loss_scaler_takes_care_of_it() -> None:
    measurements = Measurements(forgives_overflow=True, peak=20e9)
    measurements.add(3, update(2.0, norm=math.inf), seconds=0.1)
    measurements.add(4, update(2.0, norm=3.0), seconds=0.1)
    values = measurements.read()
    assert values is not None
    assert values["gradient_norm"] == 3.0
