"""Processes as torchrun starts them, without torchrun; as a module, the process that forks them."""

import atexit
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from select import select
from tempfile import TemporaryDirectory
from typing import Any

import click
from torch.distributed import TCPStore
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from model.cli import main
from model.training.data import tokenisation
from model.training.data.batches import Batch
from model.training.distributed.process_group import join_world
from model.training.optimisation.step import Update, Updater
from model.training.run import open_run
from model.training.train_config import TrainConfig

SMALL_CHUNK = 8
"""Several chunks of a small corpus, so that each process has some."""
IN_A_ROW, UNDER_TORCHRUN = "in a row", "under torchrun"
STOPS_AT = 4


def write_toml(config: TrainConfig, file: Path) -> None:
    """A configuration file for the command."""
    lines = []
    for name, section in config.to_dict().items():
        if isinstance(section, list):
            lines.append(f"{name} = [{', '.join('{' + ', '.join(_items(table)) + '}' for table in section)}]")
        else:
            lines += [f"{name}.{item}" for item in _items(section)]
    file.write_text("\n".join(lines), encoding="utf-8")


def _items(table: dict[str, Any]) -> list[str]:
    """JSON's values are TOML's, but for null."""
    return [f"{key} = {json.dumps(value)}" for key, value in table.items() if value is not None]


class Ranks:
    """The processes of one world, used as a Popen.

    Args:
        parent: The process that forked them, which answers once they have ended.
        said: Where they write standard error.
    """

    def __init__(self, parent: subprocess.Popen[str], said: Path) -> None:
        self._parent, self._said = parent, said
        self._statuses: list[int] = []
        self.pids: list[int] = self._answer()

    def _answer(self) -> Any:
        assert self._parent.stdout is not None
        answer = self._parent.stdout.readline()
        assert answer, f"the process that forks ranks has ended: {self._parent.wait()}"
        return json.loads(answer)

    def outcome(self) -> tuple[list[int], str]:
        """Exit statuses, and what all said on standard error, once all have ended."""
        self._statuses = self._statuses or self._answer()
        return self._statuses, self._said.read_text()

    communicate = outcome

    def poll(self) -> int | None:
        if not self._statuses and not select([self._parent.stdout], [], [], 0)[0]:
            return None
        return self.outcome()[0][0]

    def kill(self) -> None:
        for pid in self.pids if self.poll() is None else ():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@cache
def _parent() -> subprocess.Popen[str]:
    """The process that forks the ranks of all worlds: it imports the trainer once, which takes a second."""
    command = [sys.executable, "-m", __name__]
    parent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(parent.communicate)
    return parent


@contextmanager
def started(commands: Sequence[Sequence[str]]) -> Iterator[Ranks]:
    """Ranks of one world, one for each list of arguments of `run_rank`; none of them outlives the context.

    As under torchrun, they meet at a store of the process that starts them: its port is taken from the
    beginning.
    """
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port), "WORLD_SIZE": str(len(commands))}
    shared = {**os.environ, **place, "TORCHELASTIC_USE_AGENT_STORE": "True", "OMP_NUM_THREADS": "1"}
    parent = _parent()
    assert parent.stdin is not None
    with TemporaryDirectory() as folder:
        said = Path(folder) / "stderr"
        click.echo(json.dumps([commands, shared, str(said)]), parent.stdin)
        ranks = Ranks(parent, said)
        try:
            yield ranks
        finally:
            ranks.kill()
            ranks.outcome()


def outcome_of(commands: Sequence[Sequence[str]]) -> tuple[list[int], str]:
    """Exit statuses, and what all said on standard error, of the ranks of one world."""
    with started(commands) as ranks:
        return ranks.outcome()


def train_together(configs: Sequence[TrainConfig], folder: Path) -> str:
    """Train runs of two processes, one after the other; returns their standard error.

    At its end, each process prints `at the end: `, whether it has imported torch's compiler, and the names of
    its threads, if there is /proc.
    """
    files = [folder / f"{number}.json" for number in range(len(configs))]
    for file, config in zip(files, configs, strict=True):
        file.write_text(json.dumps(config.to_dict()))
    arguments = [IN_A_ROW, *map(str, files)]
    statuses, said = outcome_of([arguments, arguments])
    assert statuses == [0, 0], said
    return said


def cut_small() -> None:
    tokenisation.CHUNK_SIZE = SMALL_CHUNK


def print_end() -> None:
    names = []
    for file in Path("/proc/self/task").glob("*/comm"):
        with suppress(OSError):  # the thread has ended meanwhile
            names.append(file.read_text().strip())
    sys.stderr.write(f"at the end: compiler {'torch._dynamo' in sys.modules} {' '.join(names)}\n")


def run_rank(arguments: Sequence[str]) -> None:
    """Run the command `dragoman`, after UNDER_TORCHRUN in two processes of its own; or after IN_A_ROW
    trainings with the configurations of files.
    """
    cut_small()
    if arguments[0] == UNDER_TORCHRUN:
        under_torchrun(Path(arguments[1]), arguments[2:])
        return
    if arguments[0] != IN_A_ROW:
        main(arguments)
    atexit.register(print_end)
    with join_world() as world:
        for file in arguments[1:]:
            open_run(TrainConfig.from_dict(json.loads(Path(file).read_text())), world=world).run()


def under_torchrun(stopped: Path, arguments: Sequence[str]) -> None:
    """Run the command in two processes as torchrun does, but with forks, which import nothing again.

    The second process writes its id and stands still at STOPS_AT, until it is killed; the one that takes its
    place does not.
    """

    def update(self: Updater, step: int, batches: Sequence[Batch], **progress: float) -> Update:
        if step == STOPS_AT and (os.environ["RANK"], os.environ["TORCHELASTIC_RESTART_COUNT"]) == ("1", "0"):
            stopped.write_text(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGSTOP)
        return work(self, step, batches, **progress)

    def dragoman(*given: str) -> None:
        main(given)

    work, Updater.update = Updater.update, update  # type: ignore[method-assign]
    launch = LaunchConfig(
        1, 1, 2, rdzv_backend="c10d", rdzv_endpoint="localhost:0", max_restarts=1, start_method="fork"
    )
    elastic_launch(launch, dragoman)(*arguments)


def fork_ranks(commands: Sequence[Sequence[str]], environment: dict[str, str], said: str) -> None:
    """Print the ids of the ranks, and at their end their exit statuses; a rank ends with `SystemExit`."""
    pids = []
    for rank, arguments in enumerate(commands):
        pids.append(os.fork())
        if pids[-1] == 0:
            os.environ.clear()
            os.environ |= {**environment, "RANK": str(rank), "LOCAL_RANK": str(rank)}
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), sys.stderr.fileno())
            run_rank(arguments)
            sys.exit()
    click.echo(json.dumps(pids))
    click.echo(json.dumps([os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]))


if __name__ == "__main__":
    for line in sys.stdin:
        fork_ranks(*json.loads(line))
