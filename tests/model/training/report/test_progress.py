import logging
import sys

import pytest

from model.training.config.run import RunConfig
from model.training.report.progress import Progress, completed_share, time_left


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
