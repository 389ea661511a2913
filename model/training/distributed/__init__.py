"""The device of a run, and the processes that train together on several."""

import os


def is_distributed() -> bool:
    """Returns whether this process is one of several that train together."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1
