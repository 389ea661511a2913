"""The machine that a figure belongs to, and how busy it was."""

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
    """Where and when a benchmark ran; `threads` are the numeric threads of each engine or service."""

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
    """The machine as it is now."""
    flags = _cpuinfo("flags").split()
    return Machine(
        processor=_cpuinfo("model name") or platform.processor() or platform.machine(),
        instructions=", ".join(name for name in _VECTORS if name in flags) or "unknown vector instructions",
        cores=os.cpu_count() or 1,
        threads=tuple(threads),
        system=f"{platform.system()}, Python {platform.python_version()}",
        versions={name: version for name in _PACKAGES if (version := installed_version(name))},
        date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M"),
    )


def pin(threads: int) -> None:
    """Keep this process on that many cores, the last ones, where the system can."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-threads:])


def installed_version(package: str) -> str | None:
    """Version of a package; None where it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def load_average() -> float:
    """Mean number of processes that ran or were ready to run in the last minute."""
    return os.getloadavg()[0]


def load_note(before: float, after: float) -> str:
    """What the load averages before and after a run say about its figures."""
    if before < _QUIET_LOAD:
        return f"Load average before and after: {before:.1f} and {after:.1f}."
    return (
        f"**The machine was busy** (load average before and after: {before:.1f} and {after:.1f}): "
        "the ratios hold under this load, absolute figures would be higher on a quiet machine."
    )


def memory_of(process: int | Literal["self"], field: str) -> int:
    """Bytes of a process by Linux's name, `VmRSS` now or `VmHWM` at most so far; 0 on other systems."""
    status = Path(f"/proc/{process}/status")
    if not status.exists():
        return 0
    lines = dict(line.split(":", 1) for line in status.read_text(encoding="utf-8").splitlines())
    return int(lines[field].split()[0]) * 1024


def _cpuinfo(field: str) -> str:
    """What Linux says about the first core; empty on other systems."""
    described = Path("/proc/cpuinfo")
    if not described.exists():
        return ""
    lines = (line.partition(":") for line in described.read_text(encoding="utf-8").splitlines())
    return next((value.strip() for name, _, value in lines if name.strip() == field), "")
