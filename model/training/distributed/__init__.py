"""Training on several processes: their collective operations, with and without torch.distributed."""

import os


def is_distributed() -> bool:
    """Whether this process is one of several that train together."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1
