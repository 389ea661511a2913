"""⑤ How much memory of the accelerator is in use."""

import sys


def accelerator_memory() -> dict[str, int]:
    """Bytes by kind, over all devices: `allocated` to tensors, `reserved` by the allocator, `total`.

    Empty on a machine without a GPU, or before anything was put on one.
    """
    if "torch" not in sys.modules:  # nobody can have put anything there, and loading it takes seconds
        return {}
    import torch

    if not torch.cuda.is_initialized():
        return {}
    devices = range(torch.cuda.device_count())
    return {
        "allocated": sum(torch.cuda.memory_allocated(device) for device in devices),
        "reserved": sum(torch.cuda.memory_reserved(device) for device in devices),
        "total": sum(torch.cuda.get_device_properties(device).total_memory for device in devices),
    }
