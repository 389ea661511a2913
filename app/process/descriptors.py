"""File descriptors: as many as the system grants, some of them for other things than connections."""

import resource
from typing import Final

# Enough for any number of clients of one process, and harmless for what walks through all of them.
_MOST: Final = 65_536
# For the listening socket, logs, checkpoints that are loaded anew, devices.
_RESERVE: Final = 128


def claim_descriptors() -> int:
    """Raise this process's limit as far as it may go.

    Returns:
        For how many connections that is enough.
    """
    soft, hard = (_MOST if limit == resource.RLIM_INFINITY else limit for limit in _limits())
    granted = max(soft, min(hard, _MOST))
    if granted > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (granted, _limits()[1]))
    return granted - min(_RESERVE, granted // 2)


def _limits() -> tuple[int, int]:
    return resource.getrlimit(resource.RLIMIT_NOFILE)
