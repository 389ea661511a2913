"""⑤ Whether a GPU computes steps by Triton kernels: each is first compared with PyTorch on random tensors."""

import logging
from functools import cache

import torch

from model.decoding.pytorch.device_use import using
from model.decoding.pytorch.kernel_cases import Sizes, cases
from model.network.transformer import Transformer

logger = logging.getLogger(__name__)

# Rounding of an update, a stream and a result of magnitude 4.
_TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 0.07}


def fuse_steps(network: Transformer, device: torch.device) -> bool:
    """Have a GPU decode with fewer kernels, if they work there and support the network.

    Returns:
        Whether steps may use the Triton kernels.
    """
    with using(device):
        if network.config.positions == "relative_vectors" or not kernels_work(device):
            return False
        network.join_projections()
    return True


@cache
def kernels_work(device: torch.device) -> bool:
    """Returns whether the kernels run on a device and compute what PyTorch does; if not, the log says why.

    The first call on a GPU compiles the kernels for small tensors, in some seconds.
    """
    if device.type != "cuda":
        return False
    try:
        for dtype in _TOLERANCE:
            require_agreement(device, dtype)
    except Exception as reason:  # whatever it is, PyTorch can do without the kernels
        logger.warning(
            "decoder steps on %s use no Triton kernels: %s: %s", device, type(reason).__name__, reason
        )
        return False
    logger.info("decoder steps on %s use Triton kernels", device)
    return True


@torch.inference_mode()
def require_agreement(device: torch.device, dtype: torch.dtype, sizes: Sizes | None = None) -> None:
    """Compare every kernel with its reference.

    Raises:
        RuntimeError: If a kernel differs.
    """
    for name, (kernel, reference) in cases(device, dtype, sizes or Sizes()).items():
        for computed, expected in zip(kernel(), reference(), strict=True):
            worst = float((computed.float() - expected.float()).abs().max())
            if not worst <= _TOLERANCE[dtype]:
                raise RuntimeError(f"the kernel {name} differs by {worst} from PyTorch in {dtype}")
