"""① What h11 lets through although it should not: ambiguous lengths, other versions, bodies in crumbs."""

from typing import Final

import h11

# A crumb costs far more work than its bytes: 100,000 chunks of one byte keep the process busy for seconds.
_MAX_CHUNKS: Final = 4096
_VERSIONS: Final = (b"1.0", b"1.1")

Event = h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]


class StrictConnection(h11.Connection):
    """A server's side of one connection.

    Args:
        max_head_bytes: Limit of a head that is not complete yet.
    """

    def __init__(self, max_head_bytes: int) -> None:
        super().__init__(h11.SERVER, max_incomplete_event_size=max_head_bytes)
        self._chunks = 0

    def next_event(self) -> Event:
        """The next event of the client.

        Raises:
            RemoteProtocolError: If it is none that can be answered; its `error_status_hint` says how to.
        """
        event = super().next_event()
        if isinstance(event, h11.Request):
            self._chunks = 0
            _check_head(event)
        elif isinstance(event, h11.Data):
            self._chunks += event.chunk_start
            if self._chunks > _MAX_CHUNKS:
                raise h11.RemoteProtocolError("too many chunks", error_status_hint=413)
        return event


def _check_head(request: h11.Request) -> None:
    if request.http_version not in _VERSIONS:
        raise h11.RemoteProtocolError("not HTTP/1", error_status_hint=505)
    names = {name for name, _ in request.headers}
    if {b"transfer-encoding", b"content-length"} <= names:
        # A proxy in front may believe the other one, and so see other requests than we do.
        raise h11.RemoteProtocolError("two lengths", error_status_hint=400)
