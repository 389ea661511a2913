"""ⓔ What torchrun tells a process that it starts, by environment variables. No torch."""

import os


def is_among_others() -> bool:
    """Whether this process is one of several that train together."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1
