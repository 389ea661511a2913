"""Processes as torchrun starts them, without torchrun; as a module, what they run: trainings in a row."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from model.training.distributed import joined
from model.training.run import Run
from model.training.train_config import TrainConfig

CLI = ("-c", "from model.cli import main; main()")


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


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def start_each(commands: Sequence[Sequence[str]]) -> list[subprocess.Popen[str]]:
    """One Python process for each list of arguments; they are the ranks of one world."""
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(len(commands))}
    return [
        subprocess.Popen(
            [sys.executable, *arguments],
            env={**os.environ, **place, "RANK": str(rank), "LOCAL_RANK": str(rank), "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank, arguments in enumerate(commands)
    ]


def outcome(processes: Sequence[subprocess.Popen[str]]) -> tuple[list[int], str]:
    """Exit statuses, and what all said on standard error."""
    said = [process.communicate()[1] for process in processes]
    return [process.returncode for process in processes], "".join(said)


def train_together(configs: Sequence[TrainConfig], folder: Path) -> None:
    """Runs of two processes, one after the other; their configurations pass through the folder."""
    files = [folder / f"{number}.json" for number in range(len(configs))]
    for file, config in zip(files, configs, strict=True):
        file.write_text(json.dumps(config.to_dict()))
    arguments = ["-m", __name__, *map(str, files)]
    statuses, said = outcome(start_each([arguments, arguments]))
    assert statuses == [0, 0], said


if __name__ == "__main__":
    with joined() as world:
        for file in sys.argv[1:]:
            Run(TrainConfig.from_dict(json.loads(Path(file).read_text())), world=world).run()
