"""Processes as torchrun starts them, without torchrun; as a module, what they run: trainings in a row."""

import atexit
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch.distributed import TCPStore

from model.training.data import tokenisation
from model.training.distributed.process_group import join_world
from model.training.run import open_run
from model.training.train_config import TrainConfig
from tests.model.training.waiting import PATIENCE_SECONDS

SMALL_CHUNK = 8
"""Several chunks of a small corpus, so that each process has some."""
CLI = (
    "-c",
    f"from {__name__} import cut_small\nfrom model.cli import main\ncut_small()\nmain()",
)


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


@contextmanager
def started(commands: Sequence[Sequence[str]]) -> Iterator[list[subprocess.Popen[str]]]:
    """One Python process for each list of arguments; they are the ranks of one world.

    As under torchrun, they meet at a store of the process that starts them: its port is taken from the
    beginning. None of them outlives the context.
    """
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port), "WORLD_SIZE": str(len(commands))}
    shared = {**os.environ, **place, "TORCHELASTIC_USE_AGENT_STORE": "True", "OMP_NUM_THREADS": "1"}
    processes = [
        subprocess.Popen(
            [sys.executable, *arguments],
            env={**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank, arguments in enumerate(commands)
    ]
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def outcome(processes: Sequence[subprocess.Popen[str]]) -> tuple[list[int], str]:
    """Exit statuses, and what all said on standard error."""
    said = [process.communicate(timeout=PATIENCE_SECONDS)[1] for process in processes]
    return [process.returncode for process in processes], "".join(said)


def outcome_of(commands: Sequence[Sequence[str]]) -> tuple[list[int], str]:
    """Exit statuses, and what all said on standard error, of the ranks of one world."""
    with started(commands) as processes:
        return outcome(processes)


def train_together(configs: Sequence[TrainConfig], folder: Path) -> str:
    """Train runs of two processes, one after the other; returns their standard error.

    At its end, each process prints `at the end: `, whether it has imported torch's compiler, and the names of
    its threads, if there is /proc.
    """
    files = [folder / f"{number}.json" for number in range(len(configs))]
    for file, config in zip(files, configs, strict=True):
        file.write_text(json.dumps(config.to_dict()))
    arguments = ["-m", __name__, *map(str, files)]
    statuses, said = outcome_of([arguments, arguments])
    assert statuses == [0, 0], said
    return said


def cut_small() -> None:
    tokenisation.CHUNK_SIZE = SMALL_CHUNK


def print_end() -> None:
    names = [file.read_text().strip() for file in Path("/proc/self/task").glob("*/comm")]
    sys.stderr.write(f"at the end: compiler {'torch._dynamo' in sys.modules} {' '.join(names)}\n")


if __name__ == "__main__":
    atexit.register(print_end)
    cut_small()
    with join_world() as world:
        for file in sys.argv[1:]:
            open_run(TrainConfig.from_dict(json.loads(Path(file).read_text())), world=world).run()
