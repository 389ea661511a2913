"""Provenance of weights: data, code, steps, scores, time, machine; no person, host or full path."""

import hashlib
import importlib.metadata
import platform
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

import torch

import model
from model.training.config.sections import CorpusConfig
from model.training.config.train_config import TrainConfig, paths
from model.training.data.corpus import corpus_files
from model.training.run_folder.state import Position

_SOURCE = Path(model.__file__).resolve().parents[1]
"""The root of the checkout, or the folder that the package is installed in."""


def describe_data(corpora: Sequence[CorpusConfig]) -> list[dict[str, object]]:
    """Each corpus with the name, size and SHA-256 of its files."""
    return [
        {
            "languages": [corpus.source_language, corpus.target_language],
            "bidirectional": corpus.bidirectional,
            "weight": corpus.weight,
            "files": [_describe_file(path) for path in corpus_files(corpus)],
        }
        for corpus in corpora
    ]


def _describe_file(path: Path) -> dict[str, object]:
    with path.open("rb") as file:
        checksum = hashlib.file_digest(file, "sha256").hexdigest()
    return {
        "name": f"{path.resolve().parent.name}/{path.name}",
        "bytes": path.stat().st_size,
        "sha256": checksum,
    }


@cache
def code_version() -> dict[str, str | None]:
    """Version of the package, and the commit if the code is a git checkout."""
    return {"package": _package(), "commit": _commit()}


def _package() -> str | None:
    try:
        return importlib.metadata.version("dragoman")
    except importlib.metadata.PackageNotFoundError:
        return None  # the checkout is not installed; the commit identifies the code


def _commit() -> str | None:
    if not (_SOURCE / ".git").exists():  # installed, perhaps inside another project's checkout
        return None
    command = ["git", "-C", str(_SOURCE), "describe", "--always", "--dirty", "--abbrev=40", "--exclude", "*"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return None  # git is missing; the package version identifies the code
    return answer.stdout.strip()


def describe_machine(device: torch.device) -> dict[str, object]:
    """Device, threads and library versions."""
    is_cuda = device.type == "cuda"
    return {
        "device": torch.cuda.get_device_name(device) if is_cuda else f"{platform.machine()} CPU",
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def plain_config(config: TrainConfig) -> dict[str, Any]:
    """The configuration with each path cut to its last two parts."""
    values = config.to_dict()
    for table, name in paths(values):
        table[name] = "/".join(Path(table[name]).parts[-2:])
    return values


@dataclass(frozen=True, kw_only=True)
class RunDescription:
    """The description of a run before its first update.

    Attributes:
        config: The run's configuration.
        data: Description by `describe_data`, and how the corpus was cleaned.
        device: Device that the run trains on.
        processes: How many train together, each on such a device.
        peak: Multiplications and additions per second of a large matrix product, measured on the device.
    """

    config: TrainConfig
    data: Mapping[str, object]
    device: torch.device
    processes: int = 1
    peak: float | None = None

    def provenance(
        self, position: Position, *, scores: Mapping[str, Any] | None, mfu: Sequence[float] = ()
    ) -> dict[str, object]:
        """Everything to know about the weights at a position.

        Args:
            position: How far the run is.
            scores: Those of the weights, as the log has them; None if there are none.
            mfu: Model FLOPs utilisations that were logged.
        """
        machine = {"processes": self.processes, "peak_flops": self.peak}
        return {
            "data": dict(self.data),
            "steps": position.step,
            "epochs": round(position.epoch, 3),
            "tokens": position.tokens,
            "seconds": round(position.seconds, 1),
            "scores": None if scores is None else _without_samples(scores),
            "code": code_version(),
            "machine": describe_machine(self.device) | machine,
            "mfu": median(mfu) if mfu else None,
            "config": plain_config(self.config),
        }


def _without_samples(scores: Mapping[str, Any]) -> dict[str, Any]:
    """Scores without sample translations, because corpus text may not be redistributed."""
    directions = {
        pair: {name: value for name, value in found.items() if name != "samples"}
        for pair, found in scores["directions"].items()
    }
    return {**scores, "directions": directions}
