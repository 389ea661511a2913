"""The machine a figure belongs to, and how busy it was."""

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

import torch

_QUIET_LOAD = 1.0
_PACKAGES = ("dragoman", "torch", "transformers", "ctranslate2")


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Where and when a benchmark ran.

    Attributes:
        processor: Model name.
        instructions: The widest vector instructions PyTorch uses.
        cores: All that the system has.
        pinned_cores: Those the benchmark kept to; empty where the system cannot pin.
        threads: Numeric threads of each engine.
        system: Operating system and Python.
        versions: Of the packages that are compared.
        date: UTC, to the minute.
    """

    processor: str
    instructions: str
    cores: int
    pinned_cores: tuple[int, ...]
    threads: int
    system: str
    versions: dict[str, str]
    date: str

    def __str__(self) -> str:
        pinned = f", pinned to core {', '.join(map(str, self.pinned_cores))}" if self.pinned_cores else ""
        versions = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        return (
            f"{self.date} UTC, {self.processor} ({self.instructions}), {self.cores} cores; "
            f"threads: {self.threads}{pinned}; {self.system}; {versions}"
        )


def settle(threads: int) -> Machine:
    """Keep this process to so many threads, each with a core of its own, and describe the machine.

    Args:
        threads: Numeric threads, at least 1.
    """
    torch.set_num_threads(threads)
    pinned: tuple[int, ...] = ()
    if hasattr(os, "sched_setaffinity"):
        pinned = tuple(sorted(os.sched_getaffinity(0))[-threads:])
        os.sched_setaffinity(0, pinned)
    return Machine(
        processor=_processor(),
        instructions=torch.backends.cpu.get_cpu_capability(),
        cores=os.cpu_count() or 1,
        pinned_cores=pinned,
        threads=threads,
        system=f"{platform.system()}, Python {platform.python_version()}",
        versions={name: version for name in _PACKAGES if (version := installed_version(name))},
        date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M"),
    )


def installed_version(package: str) -> str | None:
    """Version of a package; None where it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def load_average() -> float:
    """Processes that ran or wanted to, a mean over the last minute."""
    return os.getloadavg()[0]


def load_note(loads: Sequence[float]) -> str:
    """What the load before and after a run says about its figures.

    Args:
        loads: Load averages; the first was taken before this process had any part in it.
    """
    measured = " and ".join(f"{load:.1f}" for load in loads)
    if loads[0] < _QUIET_LOAD:
        return f"Load average before and after: {measured}."
    return (
        f"**The machine was busy** (load average before and after: {measured}): "
        "the ratios hold under this load, absolute figures would be higher on a quiet machine."
    )


def _processor() -> str:
    described = Path("/proc/cpuinfo")
    if described.exists():
        for line in described.read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()
