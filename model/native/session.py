"""⑤ One running batch in the native library, as thin as can be over its C functions."""

import ctypes
import struct
from collections.abc import Collection, Sequence

from model.errors import NativeError
from model.native.binding import freed_with
from model.native.network import NativeNetwork
from model.native.structures import ProgressView, RequestStruct, SessionConfig


class Session:
    """One running batch; one thread drives it. See session.h.

    Args:
        network: May be shared with other sessions.
        max_rows: Most hypotheses at once.
        max_entries: Entries of decoder state: one a source token, one a token of a hypothesis.
        never_produced: Target ids that no translation may hold, EOS not among them.

    Raises:
        NativeError: If it cannot be; so do the methods if they cannot do as asked, or it is closed.
    """

    def __init__(
        self, network: NativeNetwork, *, max_rows: int, max_entries: int, never_produced: Collection[int]
    ) -> None:
        self._network = network  # must not go before the session does
        self._library = network.binding
        never = integers(never_produced)
        config = SessionConfig(
            max_rows=max_rows,
            max_entries=max_entries,
            start_id=network.config.decoder_start_id,
            eos_id=network.config.eos_id,
            never_produced=ctypes.addressof(never),
            num_never_produced=len(never),
        )
        self._address = self._library.session_create(network.address, config)
        self._close = freed_with(self, self._library.session_free, self._address)

    @property
    def _open(self) -> int:
        """Its address; whoever calls a closed one would read memory that is no longer its own."""
        if not self._close.alive:
            raise NativeError("the session is closed")
        return self._address

    def admit(self, requests: Sequence[RequestStruct]) -> None:
        """Encode sentences as one batch; what the requests point to may go afterwards."""
        self._library.session_admit(self._open, (RequestStruct * len(requests))(*requests), len(requests))

    def run(self, max_steps: int, interrupt_address: int) -> ProgressView:
        """Step until a sentence has finished, the interrupt is set or `max_steps` are done.

        What the view points to lies where it is until the next call.
        """
        progress = ProgressView()
        self._library.session_run(self._open, max_steps, interrupt_address, progress)
        return progress

    def drop(self, handles: Sequence[int]) -> None:
        """Forget running sentences."""
        array = (ctypes.c_int64 * len(handles))(*handles)
        self._library.session_drop(self._open, array, len(handles))

    def agreed(self, handle: int, capacity: int) -> tuple[int, ...]:
        """The tokens, at most `capacity`, that all results of a running sentence begin with."""
        tokens = (ctypes.c_int32 * capacity)()
        count = self._library.session_agreed(self._open, handle, tokens, capacity)
        return tuple(tokens[:count])

    @property
    def num_free_entries(self) -> int:
        """Entries of the decoder state that nobody occupies."""
        return int(self._library.session_num_free_entries(self._open))

    def close(self) -> None:
        """Give back its memory; the session is of no use afterwards."""
        self._close()


def integers(values: Collection[int]) -> "ctypes.Array[ctypes.c_int32]":
    """Values as the library reads them; must live until it has."""
    return (ctypes.c_int32 * len(values))(*values)


def read_integers(address: int | None, count: int) -> tuple[int, ...]:
    """A copy of `count` int32 in the library's memory."""
    return struct.unpack(f"{count}i", ctypes.string_at(address, 4 * count)) if address and count else ()


def read_handles(address: int | None, count: int) -> tuple[int, ...]:
    """A copy of `count` int64 in the library's memory."""
    return struct.unpack(f"{count}q", ctypes.string_at(address, 8 * count)) if address and count else ()


def read_floats(address: int | None, count: int) -> tuple[float, ...]:
    """A copy of `count` float32 in the library's memory."""
    return struct.unpack(f"{count}f", ctypes.string_at(address, 4 * count)) if address and count else ()
