"""⑤ How many cores this process may use."""

import os
from pathlib import Path

_QUOTA = Path("/sys/fs/cgroup/cpu.max")


def available_cores(quota_file: Path = _QUOTA) -> int:
    """Cores it may run on, or what a container's quota leaves of them; at least 1.

    Args:
        quota_file: Microseconds of work, and of time in which they may be done, as cgroup v2 writes them.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = quota_file.read_text().split()
    except (OSError, ValueError):
        return cores
    return cores if quota == "max" else max(1, min(cores, int(quota) // int(period)))
