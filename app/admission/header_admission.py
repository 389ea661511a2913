"""① Who is turned away at the first sight of a head, because the house is full: before it costs a task.

Behind a connection every request takes several turns of the event loop until anybody counts it. Where far
more comes than can be served, thousands would stand in each turn, and refusals would wait with all the rest.
"""

import logging
from collections.abc import Sequence
from typing import Final

from app.admission.gate import Admission, Room
from app.admission.keys import KeyRing, key_in
from app.errors import AccessDeniedError, HouseFullError, KeysUnreadableError
from app.telemetry.metrics import Metrics

logger = logging.getLogger(__name__)

Field = tuple[bytes, bytes]
"""A header field: its name in lower case, and its value."""

WORK: Final = frozenset({"/translate", "/detect", "/v2/translate"})
"""Paths behind which there is work to do; probes and metrics are always let in."""
_CODE: Final = "house_full"
# How many are turned away for each line of the log.
_PER_LINE: Final = 1000


class Porter:
    """Counts the requests of one server that bring work, from their heads to their answers.

    Args:
        max_requests: Most requests at a time.
        keys: Who owns which API key.
        admission: Knows when there will be room again.
        metrics: Where refusals are counted.
        is_behind_proxies: Whether addresses of connections are those of proxies.
    """

    def __init__(
        self,
        max_requests: int,
        *,
        keys: KeyRing,
        admission: Admission,
        metrics: Metrics,
        is_behind_proxies: bool = False,
    ) -> None:
        self._room = Room(max_requests)
        self._keys = keys
        self._admission = admission
        self._metrics = metrics
        self._is_behind_proxies = is_behind_proxies
        self._num_refused = 0

    def visitor(
        self, method: bytes, target: bytes, fields: Sequence[Field], address: tuple[str, int] | None
    ) -> str | None:
        """Whose request this is, if it brings work; None if it does not.

        That is the owner of its key, or else its address. Behind a proxy, which would seem to be a single
        client, it is its connection: only further inside are clients told apart by what the proxy says.
        """
        if method != b"POST" or target.partition(b"?")[0].decode("latin-1") not in WORK:
            return None
        authorization = next((value for name, value in fields if name == b"authorization"), None)
        if authorization is not None and (owner := self._owner(key_in(authorization.decode("latin-1")))):
            return f"key:{owner}"
        return str(address) if self._is_behind_proxies or address is None else address[0]

    def _owner(self, key: str | None) -> str | None:
        try:
            return self._keys.identify(key)
        except (AccessDeniedError, KeysUnreadableError):
            # Such a request is refused further inside.
            return None

    def refusal(self, visitor: str, fields: Sequence[Field]) -> HouseFullError | None:
        """Why a request cannot be let in just now, or None.

        Args:
            visitor: Whose it is.
            fields: Of its head. A page of another origin would not see this answer, for want of fields
                that say it may, so it gets one further inside.
        """
        if self._room.fits(1, visitor) or any(name == b"origin" for name, _ in fields):
            return None
        return self._admission.full()

    def enter(self, visitor: str) -> None:
        """Let a request in; it has to `leave`."""
        self._room.take(1, visitor)

    def leave(self, visitor: str) -> None:
        """It has its answer, or its connection is gone."""
        self._room.take(-1, visitor)

    def count_refusal(self, target: bytes) -> None:
        """Count one that was turned away."""
        endpoint = target.partition(b"?")[0].decode("latin-1")
        self._metrics.count_early_rejection(_CODE, 503, endpoint)
        if self._num_refused % _PER_LINE == 0:
            details = {"code": _CODE, "status": 503, "before": self._num_refused}
            logger.warning("requests are being turned away", extra=details)
        self._num_refused += 1
