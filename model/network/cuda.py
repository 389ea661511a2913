"""Which kernels of PyTorch a GPU uses for attention; training and decoding choose alike."""

import logging

import torch

logger = logging.getLogger(__name__)


def choose_attention_kernels(device: torch.device | str) -> None:
    """Never use cuDNN's attention on a GPU, and log what is left; nothing happens on a CPU.

    cuDNN, PyTorch's first choice on Hopper in half precision, makes a plan for every new shape, which takes
    tenths of a second on the thread that decodes. The choice is for the whole process.
    """
    if torch.device(device).type != "cuda":
        return
    kernels = torch.backends.cuda
    kernels.enable_cudnn_sdp(False)
    used = {
        "flash": kernels.flash_sdp_enabled(),
        "memory-efficient": kernels.mem_efficient_sdp_enabled(),
        "math": kernels.math_sdp_enabled(),
        "cuDNN": kernels.cudnn_sdp_enabled(),
    }
    names = ", ".join(name for name, is_used in used.items() if is_used)
    logger.info("attention on %s by one of: %s", device, names)
