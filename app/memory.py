"""Memory that work leaves behind: when it is collected, and when the system gets it back."""

import ctypes
import gc

# Requests in progress hold some ten thousand objects, which would be looked at again and again.
_YOUNG_OBJECTS = 10_000
_YOUNG_COLLECTIONS = 2


def limit_collections() -> None:
    """Keep each collection of garbage short, because it stops all threads while it looks at objects.

    The young generation is collected after 10,000 new objects, and the next one after three young
    collections, before it is large.
    """
    gc.set_threshold(_YOUNG_OBJECTS, _YOUNG_COLLECTIONS)


def reclaim_memory() -> None:
    """Collect garbage, and return free memory to the system; takes some hundredths of a second.

    Later collections leave out what is there now.
    """
    gc.unfreeze()
    gc.collect()
    # What lives as long as the models: modules, schemas, vocabularies.
    gc.freeze()
    release_memory()


def release_memory() -> None:
    """Returns memory that was freed to the system."""
    # glibc keeps free memory for later; other C libraries have no such function.
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
