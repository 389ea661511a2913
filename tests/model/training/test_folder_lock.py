"""Nobody else's results are overwritten: not by a second process, nor where a state is lost."""

import gc
import shutil
from pathlib import Path

import pytest

from model.errors import TrainingError
from model.training.run import Run
from tests.model.training.tiny_runs import tiny_run


@pytest.mark.parametrize("resume", [False, True])
def test_results_without_their_state_are_not_overwritten(tmp_path: Path, resume: bool) -> None:
    run = Run(tiny_run(tmp_path))
    run.run()
    shutil.rmtree(run.folder.state)
    with pytest.raises(TrainingError, match="holds checkpoints, but no state to go on from: remove it"):
        Run(tiny_run(tmp_path), resume=resume)


def test_one_process_at_a_time_trains_in_a_folder(tmp_path: Path) -> None:
    first = Run(tiny_run(tmp_path))
    with pytest.raises(TrainingError, match="another process trains in"):
        Run(tiny_run(tmp_path), resume=True)
    first.run()
    Run(tiny_run(tmp_path), resume=True).run()


def test_a_run_that_is_never_run_lets_others_in_when_it_goes(tmp_path: Path) -> None:
    forgotten = Run(tiny_run(tmp_path))
    del forgotten
    gc.collect()
    assert Run(tiny_run(tmp_path)).run() == "max_steps"
