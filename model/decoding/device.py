"""Where a network runs and in which precision; CPU count and GPU memory. Torch only where a GPU may be.

`auto` is bfloat16 on a GPU that computes in it natively, and float16 on an older one. On a CPU it is int8
in the native library, which costs at most 0.2 BLEU and gives each sentence the same tokens in any batch,
and float32 in PyTorch. bfloat16 on a CPU must be asked for by name: in PyTorch its rounding depends on the
batch, which can change a close decision.
"""

import os
import sys
from pathlib import Path
from typing import Literal, cast

from model.validators import has_torch, require, require_choice, require_torch

Precision = Literal["float32", "bfloat16", "float16", "int8"]

DEVICES = ("auto", "cpu", "cuda", "cuda:N")
PRECISIONS = ("auto", "float32", "bfloat16", "float16", "int8")

# Device files of the drivers of NVIDIA, AMD and WSL; without one of them, PyTorch finds no GPU.
_DRIVERS = (Path("/dev/nvidiactl"), Path("/dev/kfd"), Path("/dev/dxg"))

_QUOTA = Path("/sys/fs/cgroup/cpu.max")


def resolve_device(name: str) -> str:
    """The device that `auto`, `cpu`, `cuda` or `cuda:N` means on this machine: `cpu`, `cuda` or `cuda:N`.

    Raises:
        ConfigError: If there is no such device.
        MissingTorchError: If it is a GPU and PyTorch is not installed.
    """
    if name == "auto":
        return "cuda" if _num_gpus() else "cpu"
    kind, colon, index = name.partition(":")
    is_known = name in ("cpu", "cuda") or (kind == "cuda" and index.isdecimal() and bool(colon))
    require(is_known, "device", "one of " + ", ".join(DEVICES), name)
    if kind == "cuda":
        require_torch(f"the device {name}")
        require(int(index or 0) < _num_gpus(), "device", "auto or cpu, as there is no such GPU", name)
    return name


def every_device(device: str) -> tuple[str, ...]:
    """The devices that share the work of one: all GPUs for `cuda`, otherwise the device alone."""
    if device != "cuda" or _num_gpus() == 1:
        return (device,)
    return tuple(f"cuda:{index}" for index in range(_num_gpus()))


def resolve_precision(name: str, device: str, *, is_native: bool) -> Precision:
    """The precision that a name means on a device.

    Args:
        name: One of PRECISIONS.
        device: As `resolve_device` gives it.
        is_native: Whether the native library computes.

    Raises:
        ConfigError: If the name is unknown.
    """
    require_choice("precision", name, PRECISIONS)
    if name != "auto":
        return cast(Precision, name)
    if device != "cpu":
        return "bfloat16" if _has_native_bfloat16(device) else "float16"
    return "int8" if is_native else "float32"


def _has_native_bfloat16(device: str) -> bool:
    """Returns whether a GPU multiplies bfloat16 matrices itself; others convert every number."""
    import torch

    with torch.cuda.device(device):
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))


def may_have_gpu() -> bool:
    """Returns whether PyTorch and the driver of a GPU are there; the GPU may be unusable all the same."""
    return has_torch() and any(driver.exists() for driver in _DRIVERS)


def _num_gpus() -> int:
    if not may_have_gpu():
        return 0
    import torch

    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def available_cores(quota_file: Path = _QUOTA) -> int:
    """Cores that the process may use, limited by a container's CPU quota; at least 1.

    Args:
        quota_file: Microseconds of CPU time per period, and of the period, as cgroup v2 writes them.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = quota_file.read_text().split()
    except (OSError, ValueError):
        return cores
    return cores if quota == "max" else max(1, min(cores, int(quota) // int(period)))


def free_gpu_memory(device: str) -> int:
    """Returns the bytes of a GPU that no process has allocated."""
    import torch

    return torch.cuda.mem_get_info(device)[0]


def cuda_graphs() -> dict[str, int]:
    """Shapes of decoder steps by state: `recorded`, or `eager` because a recording failed.

    Empty if no GPU decodes in this process.
    """
    device_use = sys.modules.get("model.decoding.pytorch.device_use")
    return device_use.count_graphs() if device_use else {}


def gpu_memory() -> dict[str, int]:
    """Bytes by kind, over all devices: `allocated` to tensors, `reserved` by the allocator, `total`.

    Empty on a machine without a GPU, or before a GPU was used.
    """
    if "torch" not in sys.modules:  # without torch nothing is allocated, and loading it takes seconds
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
