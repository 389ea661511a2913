"""Memory that the C library keeps after it was freed."""

import ctypes


def release_memory() -> None:
    """Returns free memory to the system."""
    # glibc keeps free memory for later; other C libraries have no such function.
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
