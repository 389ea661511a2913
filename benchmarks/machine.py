"""The machine a figure belongs to, and how busy it was."""

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Literal

_QUIET_LOAD = 1.0
_VECTORS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8")
_PACKAGES = ("dragoman", "torch", "transformers", "ctranslate2")


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Where and when a benchmark ran.

    Attributes:
        processor: Model name.
        instructions: Its vector instructions.
        cores: All that the system has.
        threads: Numeric threads of each contestant, each run's; on as many cores.
        system: Operating system and Python.
        versions: Of the packages that are compared.
        date: UTC, to the minute.
    """

    processor: str
    instructions: str
    cores: int
    threads: tuple[int, ...]
    system: str
    versions: dict[str, str]
    date: str

    def __str__(self) -> str:
        threads = " and ".join(map(str, self.threads))
        versions = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        return (
            f"{self.date} UTC, {self.processor} ({self.instructions}), {self.cores} cores; "
            f"threads: {threads}; {self.system}; {versions}"
        )


def describe_machine(threads: Sequence[int]) -> Machine:
    """The machine as it is now.

    Args:
        threads: Numeric threads of each contestant, each run's.
    """
    return Machine(
        processor=_processor(),
        instructions=_instructions(),
        cores=os.cpu_count() or 1,
        threads=tuple(threads),
        system=f"{platform.system()}, Python {platform.python_version()}",
        versions={name: version for name in _PACKAGES if (version := installed_version(name))},
        date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M"),
    )


def pin(threads: int) -> None:
    """Keep this process to so many cores, the last ones, where the system can.

    Args:
        threads: At least 1.
    """
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-threads:])


def installed_version(package: str) -> str | None:
    """Version of a package; None where it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def load_average() -> float:
    """Processes that ran or wanted to, a mean over the last minute."""
    return os.getloadavg()[0]


def memory_of(process: int | Literal["self"], field: str) -> int:
    """Bytes of a process, by a name of Linux's: `VmRSS` now, `VmHWM` the most so far; 0 on other systems."""
    status = Path(f"/proc/{process}/status")
    if not status.exists():
        return 0
    lines = dict(line.split(":", 1) for line in status.read_text(encoding="utf-8").splitlines())
    return int(lines[field].split()[0]) * 1024


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
    return _described("model name") or platform.processor() or platform.machine()


def _instructions() -> str:
    """Those of the vector instructions that decide how fast products are."""
    flags = _described("flags").split()
    return ", ".join(name for name in _VECTORS if name in flags) or "unknown vector instructions"


def _described(field: str) -> str:
    """What Linux says of the first core; empty elsewhere."""
    described = Path("/proc/cpuinfo")
    if not described.exists():
        return ""
    lines = (line.partition(":") for line in described.read_text(encoding="utf-8").splitlines())
    return next((value.strip() for name, _, value in lines if name.strip() == field), "")
