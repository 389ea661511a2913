"""Training on several processes: what they know of each other, and what they exchange."""

import os


def is_among_others() -> bool:
    """Whether this process is one of several that train together."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1
