"""The device of a run, and the processes that train together on several.

`world` is what the rest of the trainer sees of them, `process_group` the one use of torch.distributed.
"""

import os


def is_distributed() -> bool:
    """Returns whether this process is one of several that train together."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1
