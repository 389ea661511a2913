"""Processes as torchrun starts them, without torchrun; as a module, the process that forks them."""

import atexit
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import click
from torch.distributed import TCPStore

from model.cli import main
from model.training.data import tokenisation
from model.training.distributed.process_group import join_world
from model.training.run import open_run
from model.training.train_config import TrainConfig
from tests.model.training.waiting import PATIENCE_SECONDS

SMALL_CHUNK = 8
"""Several chunks of a small corpus, so that each process has some."""
IN_A_ROW = "in a row"


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


class Ranks(NamedTuple):
    """The processes of one world: their ids, and the process that forked them."""

    parent: subprocess.Popen[str]
    pids: list[int]

    def outcome(self) -> tuple[list[int], str]:
        """Exit statuses, and what all said on standard error."""
        statuses, said = self.parent.communicate(timeout=PATIENCE_SECONDS)
        return json.loads(statuses), said


@contextmanager
def started(commands: Sequence[Sequence[str]]) -> Iterator[Ranks]:
    """Ranks of one world, one for each list of arguments of `run_rank`; none of them outlives the context.

    They are forks of one process that has imported the trainer, which takes longer than a tiny training. As
    under torchrun, they meet at a store of the process that starts them: its port is taken from the
    beginning.
    """
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port), "WORLD_SIZE": str(len(commands))}
    shared = {**os.environ, **place, "TORCHELASTIC_USE_AGENT_STORE": "True", "OMP_NUM_THREADS": "1"}
    parent = subprocess.Popen(
        [sys.executable, "-m", __name__, json.dumps(commands)],
        env=shared,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    ids = parent.stdout.readline()
    assert ids, parent.communicate()[1]
    pids = json.loads(ids)
    try:
        yield Ranks(parent, pids)
    finally:
        for pid in pids if parent.poll() is None else ():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        parent.kill()
        parent.communicate()


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
    names = [file.read_text().strip() for file in Path("/proc/self/task").glob("*/comm")]
    sys.stderr.write(f"at the end: compiler {'torch._dynamo' in sys.modules} {' '.join(names)}\n")


def run_rank(arguments: Sequence[str]) -> None:
    """Run the command `dragoman`, or after IN_A_ROW trainings with the configurations of files."""
    cut_small()
    if arguments[0] != IN_A_ROW:
        main(arguments)
    atexit.register(print_end)
    with join_world() as world:
        for file in arguments[1:]:
            open_run(TrainConfig.from_dict(json.loads(Path(file).read_text())), world=world).run()


def fork_ranks(commands: Sequence[Sequence[str]]) -> None:
    """Print the ids of the ranks, and at their end their exit statuses; a rank returns when it has ended."""
    pids = []
    for rank, arguments in enumerate(commands):
        pids.append(os.fork())
        if pids[-1] == 0:
            os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank)}
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            run_rank(arguments)
            return
    click.echo(json.dumps(pids))
    click.echo(json.dumps([os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]))


if __name__ == "__main__":
    fork_ranks(json.loads(sys.argv[1]))
