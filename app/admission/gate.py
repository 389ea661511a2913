"""① The gate: a request with work is admitted or refused once, and holds one permit until it is answered.

The connection decides as soon as it has read the head of a request, so that a refusal costs no task: under
overload thousands of requests would otherwise wait in each iteration of the event loop. Requests that no
connection has decided on are decided by the application.
"""

import logging
import time
from collections.abc import Callable, Mapping
from typing import Final

from app.admission.keys import KeyRing
from app.admission.quota import MeasuredRate, Quota
from app.errors import OverloadedError
from app.telemetry.metrics import Metrics

logger = logging.getLogger(__name__)

_FILE_PATHS: Final = frozenset({"/translate_file", "/v2/document"})
WORK_PATHS: Final = _FILE_PATHS | {"/translate", "/detect", "/suggest", "/v2/translate"}
"""Paths whose POST requests need a permit at their head; probes and metrics need none."""
PERMIT: Final = "permit"
"""Key in `scope["state"]`: the permit of a request."""
# Refusals per line of the log.
_REFUSALS_PER_LINE: Final = 1000


class Gate:
    """Bounds the requests in progress and the bytes of their bodies, in total and for each client.

    Only the event loop uses it, so every method is atomic.

    Args:
        max_requests: Highest number of requests in progress.
        max_held_bytes: Highest number of bytes of their bodies.
        clock: Seconds; never goes back.
    """

    def __init__(
        self, max_requests: int, max_held_bytes: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._requests = Quota(max_requests)
        self._bytes = Quota(max_held_bytes)
        self._clock = clock
        self._rate = MeasuredRate(workers=1)
        self._busy_since = 0.0

    @property
    def num_requests(self) -> int:
        """Requests that hold a permit."""
        return self._requests.taken

    def admit(self, client: str, num_bytes: int) -> "Permit":
        """Admit a request; the caller has to release its permit.

        Args:
            client: The client's name, as far as it is known.
            num_bytes: Highest possible size of its body.

        Raises:
            OverloadedError: If the gate or the client's share of it is full.
        """
        self._require_room(client, num_bytes)
        if not self._requests.taken:
            self._busy_since = self._clock()
        self._take(client, num_bytes)
        return Permit(self, client, num_bytes)

    def _require_room(self, client: str, num_bytes: int) -> None:
        if not (self._requests.fits(1, client) and self._bytes.fits(num_bytes, client)):
            # All requests in progress will have been answered by then.
            raise OverloadedError(self._rate.seconds_for(self.num_requests))

    def _take(self, client: str, num_bytes: int) -> None:
        self._requests.take(1, client)
        self._bytes.take(num_bytes, client)

    def _give_back(self, client: str, num_bytes: int) -> None:
        self._requests.give_back(1, client)
        self._bytes.give_back(num_bytes, client)

    def _finish(self, client: str, num_bytes: int) -> None:
        now = self._clock()
        self._rate.record(1, now - self._busy_since)
        self._busy_since = now
        self._give_back(client, num_bytes)


class Permit:
    """What one admitted request takes of the gate; see `Gate.admit`."""

    __slots__ = ("_client", "_gate", "_num_bytes")

    def __init__(self, gate: Gate, client: str, num_bytes: int) -> None:
        self._gate: Gate | None = gate
        self._client = client
        self._num_bytes = num_bytes

    def assign(self, client: str, num_bytes: int) -> None:
        """Charge the permit to the client that the whole request names, for the bytes that its body has.

        Raises:
            OverloadedError: If that client's share is full; the permit stays as it is.
        """
        if self._gate is None:
            return
        self._gate._give_back(self._client, self._num_bytes)
        try:
            if client != self._client:
                self._gate._require_room(client, num_bytes)
            self._client, self._num_bytes = client, num_bytes
        finally:
            self._gate._take(self._client, self._num_bytes)

    def release(self) -> None:
        """Give the permit back; a second call does nothing."""
        if self._gate is not None:
            self._gate._finish(self._client, self._num_bytes)
            self._gate = None


class HeaderAdmission:
    """Admits or refuses requests at their heads, for the connections of one server.

    Args:
        gate: Gives the permits.
        keys: Names the clients.
        metrics: Counts the refusals.
        max_body_bytes: Longest body that will be read.
        max_file_bytes: Longest body with a file that will be read.
        is_behind_proxies: Whether the addresses of connections are those of proxies.
    """

    def __init__(
        self,
        gate: Gate,
        *,
        keys: KeyRing,
        metrics: Metrics,
        max_body_bytes: int,
        max_file_bytes: int,
        is_behind_proxies: bool,
    ) -> None:
        self._gate = gate
        self._keys = keys
        self._metrics = metrics
        self._max_body_bytes = max_body_bytes
        self._max_file_bytes = max_file_bytes
        self._is_behind_proxies = is_behind_proxies
        self._num_refused = 0

    def admit(
        self,
        method: bytes,
        target: bytes,
        fields: Mapping[bytes, bytes],
        address: tuple[str, int] | None,
        length: int | None,
    ) -> Permit | None:
        """Admit a request by its head.

        Args:
            method: Its method.
            target: Its path and query.
            fields: Its header fields by their names in lower case, the first of each.
            address: The other end of its connection.
            length: Bytes of its body; None if the body comes in chunks.

        Returns:
            Its permit; None where the application decides: the request has no work, or it has an `Origin`
            and is to be refused with the header fields that a browser needs.

        Raises:
            OverloadedError: If it is refused.
        """
        path = _path(target)
        if method != b"POST" or path not in WORK_PATHS:
            return None
        limit = self._max_file_bytes if path in _FILE_PATHS else self._max_body_bytes
        size = limit if length is None else min(length, limit)
        try:
            return self._gate.admit(self._client(fields, address), size)
        except OverloadedError:
            if b"origin" in fields:
                return None
            self._count_refusal(target)
            raise

    def _client(self, fields: Mapping[bytes, bytes], address: tuple[str, int] | None) -> str:
        """Returns the owner of the key, else the address, or behind a proxy the connection."""
        authorization = fields.get(b"authorization", b"")
        peer = str(address) if self._is_behind_proxies or address is None else address[0]
        return self._keys.client_by_head(authorization.decode("latin-1"), peer)

    def _count_refusal(self, target: bytes) -> None:
        self._metrics.count_early_rejection("overloaded", 503, _path(target))
        if self._num_refused % _REFUSALS_PER_LINE == 0:
            details = {"code": "overloaded", "status": 503, "before": self._num_refused}
            logger.warning("requests are refused, the service is full", extra=details)
        self._num_refused += 1


def _path(target: bytes) -> str:
    return target.partition(b"?")[0].decode("latin-1")
