"""The machine that a figure belongs to."""

import os
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

_VECTORS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8")
_PACKAGES = ("dragoman", "torch", "transformers", "ctranslate2")


def describe_machine(threads: Sequence[int]) -> Mapping[str, str]:
    """The machine as it is now; `threads` are the numeric threads of each engine or service."""
    flags = _cpuinfo("flags").split()
    vectors = ", ".join(name for name in _VECTORS if name in flags) or "unknown vector instructions"
    processor = _cpuinfo("model name") or platform.processor() or platform.machine()
    versions = {name: installed_version(name) for name in _PACKAGES}
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "processor": f"{processor} ({vectors}), {os.cpu_count()} cores",
        "threads": f"threads: {' and '.join(map(str, threads))}",
        "system": f"{platform.system()}, Python {platform.python_version()}",
        "versions": ", ".join(f"{name} {version}" for name, version in versions.items() if version),
    }


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


def _cpuinfo(field: str) -> str:
    """Returns Linux's description of the first core; empty on other systems."""
    described = Path("/proc/cpuinfo")
    text = described.read_text(encoding="utf-8") if described.exists() else ""
    lines = (line.partition(":") for line in text.splitlines())
    return next((value.strip() for name, _, value in lines if name.strip() == field), "")
