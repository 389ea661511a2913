"""⑤ Running out of memory, told alike wherever it happens: as MemoryError."""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import torch

# How PyTorch's allocator of the CPU's memory says it; it has no error of its own.
_ON_A_CPU = "can't allocate memory"


@contextmanager
def memory_errors(device: torch.device) -> Iterator[None]:
    """Let a block fail with MemoryError where PyTorch finds no memory; all that can be is given back then.

    Args:
        device: Whose memory the block uses.

    Raises:
        MemoryError: In place of what PyTorch raises.
    """
    try:
        yield
    except RuntimeError as error:
        if not _is_out_of_memory(error):
            raise
        # The frames it was raised through hold on to what they had computed so far.
        traceback.clear_frames(error.__traceback__)
        if device.type == "cuda":
            torch.cuda.empty_cache()
        raise MemoryError(str(error).partition("\n")[0]) from error


def _is_out_of_memory(error: BaseException | None) -> bool:
    """Also if it only led to another error, as it does while a graph is recorded."""
    if error is None:
        return False
    is_itself = isinstance(error, torch.OutOfMemoryError) or _ON_A_CPU in str(error)
    return is_itself or _is_out_of_memory(error.__context__)
