"""⑤ A word from another thread to the one that drives the engine: stop stepping, look up. No torch."""

import ctypes


class Interrupt:
    """A flag that any thread may set and that the native library reads where it lies."""

    def __init__(self) -> None:
        self._flag = ctypes.c_int32(0)

    def set(self) -> None:
        """Ask the runner to return after the step it is at."""
        self._flag.value = 1

    def clear(self) -> None:
        """Take the wish back; by the thread that obeyed it."""
        self._flag.value = 0

    def is_set(self) -> bool:
        """Whether somebody asked."""
        return self._flag.value != 0

    @property
    def address(self) -> int:
        """Where the flag lies, an int32, as long as this object lives."""
        return ctypes.addressof(self._flag)
