"""Tiny training runs that kill themselves, each at its point: `python -m tests.faults.killed_run FOLDER`.

Each is a fork of this process, which has finished an undisturbed run, and runs in the folder of its point's
name. The exit statuses are printed as JSON.
"""

import json
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from model import files
from model.training.data.batches import Batch
from model.training.optimisation.step import Update, Updater
from model.training.run import open_run
from model.training.run_folder import state
from tests.model.training.tiny_runs import tiny_run

SECTIONS: dict[str, dict[str, Any]] = {
    "optimisation": {"ema_decay": 0.9, "average_last": 2},
    "validation": {"keep_best": 1},
}


UNDISTURBED = "undisturbed"


def die(*_: object, **__: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def after(calls: int, work: Callable[..., Any], then: Callable[..., Any]) -> Callable[..., Any]:
    """Does its work so many times, and from then on something else."""
    left = iter(range(calls))
    return lambda *arguments: work(*arguments) if next(left, None) is not None else then(*arguments)


def in_an_update() -> None:
    def update(self: Updater, step: int, batches: Sequence[Batch], **progress: float) -> Update:
        done = work(self, step, batches, **progress)
        if step == 5:
            die()
        return done

    work = Updater.update
    Updater.update = update  # type: ignore[method-assign]


def while_tensors_are_written() -> None:
    def half(tensors: Mapping[str, Any], path: Path) -> None:
        save(tensors, path)
        os.truncate(path, path.stat().st_size // 2)
        die()

    save = state.save_file
    state.save_file = after(2, save, half)


def before_the_new_state_is_in_place() -> None:
    """The seventh folder: after those of steps 0, 3 and 4, and the three checkpoints of step 4."""
    files._put_in_place = after(6, files._put_in_place, die)


def before_the_old_state_is_gone() -> None:
    def dispatcher(one: Path, other: Path) -> None:
        swap(one, other)
        die()

    swap = files._exchange
    files._exchange = after(2, swap, dispatcher)


def between_two_renames() -> None:
    """Where the file system cannot exchange folders."""
    files._exchange = lambda *_: False
    rename, seen = Path.rename, iter(range(3))

    def renamed(self: Path, target: Path) -> Path:
        moved = rename(self, target)
        if target.name == ".state.previous" and next(seen, None) is None:
            die()
        return moved

    Path.rename = renamed  # type: ignore[method-assign]


def while_a_checkpoint_is_written() -> None:
    def flush(unfinished: Path) -> None:
        if unfinished.name == ".best.writing":
            die()
        flushed(unfinished)

    flushed = files._flush_to_disk
    files._flush_to_disk = flush


def train(folder: Path) -> None:
    folder.mkdir()
    open_run(tiny_run(folder, **SECTIONS)).run()


def killed_run(folder: Path, point: Callable[[], None]) -> int:
    """The exit status of a run that meets its point: -9."""
    child = os.fork()
    if child == 0:
        point()
        train(folder)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


POINTS: Mapping[str, Callable[[], None]] = {
    point.__name__: point
    for point in (
        in_an_update,
        while_tensors_are_written,
        before_the_new_state_is_in_place,
        before_the_old_state_is_gone,
        between_two_renames,
        while_a_checkpoint_is_written,
    )
}

if __name__ == "__main__":
    root = Path(sys.argv[1])
    train(root / UNDISTURBED)
    sys.stdout.write(json.dumps({name: killed_run(root / name, point) for name, point in POINTS.items()}))
