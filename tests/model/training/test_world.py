from pathlib import Path

import pytest
import torch

from model.errors import ConfigError, TrainingError
from model.training.run import require_batches_for_all
from model.training.world import ALONE, World
from tests.model.training.tiny_runs import tiny_run


class Three(World):
    """One of three, as far as is asked here."""

    size = 3


def test_alone_everything_is_as_it_is() -> None:
    weight = torch.ones(3)
    ALONE.copy_from_first([weight])
    ALONE.sum_(weight)
    ALONE.require_same("data", "whatever")
    with ALONE.in_turn():
        assert ALONE.highest(-7) == -7
    assert weight.tolist() == [1, 1, 1]
    assert (ALONE.is_first, ALONE.device("cpu")) == (True, torch.device("cpu"))
    assert ALONE.tells(TrainingError("why"))


def test_alone_the_generators_run_on() -> None:
    before = torch.get_rng_state()
    ALONE.seed_update(seed=1, step=1)
    assert torch.equal(torch.get_rng_state(), before)


def test_more_processes_than_batches_are_refused(tmp_path: Path) -> None:
    message = r"`optimisation\.accumulate` must be at least 3: a batch for each process, but is 2 instead"
    with pytest.raises(ConfigError, match=message):
        require_batches_for_all(tiny_run(tmp_path, optimisation={"accumulate": 2}), Three())


@pytest.mark.parametrize(("batches", "waits"), [(3, False), (4, True), (6, False)])
def test_batches_that_cannot_be_divided_evenly_are_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, batches: int, waits: bool
) -> None:
    require_batches_for_all(tiny_run(tmp_path, optimisation={"accumulate": batches}), Three())
    assert ("leave some of 3 processes waiting" in caplog.text) is waits
