"""What a set of checkpoints leaves behind goes back to the system."""

import ctypes
import gc


def reclaim_memory() -> None:
    """Free what nobody can reach, and give free memory back; takes some hundredths of a second."""
    # A scheduler and its workers know each other, and through them everything down to the weights.
    gc.collect()
    # glibc keeps what it may need again; other C libraries have no such function.
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
