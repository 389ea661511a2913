"""The device of a run, and the processes that train together on several.

`world` chooses the device, and is what the rest of the trainer sees of the processes; `process_group` is the
one use of torch.distributed.
"""

import os


def is_distributed() -> bool:
    """Returns whether this process is one of several that train together."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1
