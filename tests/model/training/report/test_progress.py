import logging
import math
import sys

import pytest
import torch

from model.errors import DivergenceError
from model.training.config.run import RunConfig
from model.training.optimisation.step import Update
from model.training.report.progress import Measurements, Progress, completed_share, time_left


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


def test_the_limit_nearest_to_its_end_says_how_far_the_run_is() -> None:
    limits = RunConfig(max_steps=100, max_minutes=10, max_epochs=4)
    assert completed_share(limits, step=10, minutes=5, epoch=1) == 0.5
    assert completed_share(limits, step=90, minutes=5, epoch=1) == 0.9
    assert completed_share(limits, step=0, minutes=50, epoch=0) == 1


def test_time_left_goes_by_the_pace_since_the_start() -> None:
    assert time_left(0.5, 0.75, seconds=3725) == "1:02:05"
    assert time_left(0.0, 1.0, seconds=3725) == "0:00:00"


def test_no_pace_no_forecast() -> None:
    assert time_left(0.5, 0.5, seconds=10) == "?"


def test_without_a_terminal_progress_is_lines_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    values = {"loss": 2.5, "learning_rate": 1e-3, "tokens_per_second": 4321.0}
    with caplog.at_level(logging.INFO, "model"), Progress(RunConfig(max_steps=10)) as progress:
        progress.show(5, 0.1, 0.25, values)
    assert "step 5, epoch 0.25: loss 2.500, rate 1.00e-03, 4,321 tokens/s, ? left" in caplog.text


def test_without_standard_error_no_bar_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    assert Progress(RunConfig(max_steps=10))._bar.disable
