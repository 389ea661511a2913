"""The service under load, and on whose behalf it is asked."""

import ipaddress
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import urlopen

from benchmarks.connection import message

PATH = "/translate"
READY_SECONDS = 120


def keys_of(named: str) -> list[str]:
    """API keys that are separated by commas, as in LOAD_API_KEYS."""
    return [key for key in named.split(",") if key]


@dataclass(frozen=True, kw_only=True)
class Client:
    """Somebody with a share of the service.

    Attributes:
        key: An API key; None is none.
        address: Local address that requests come from; None leaves it to the system.
    """

    key: str | None = None
    address: str | None = None

    @property
    def headers(self) -> dict[str, str]:
        """What says who it is."""
        return {"Authorization": f"Bearer {self.key}"} if self.key else {}


@dataclass(frozen=True, kw_only=True)
class Target:
    """A service.

    Attributes:
        url: Without a slash at its end.
        host: Address.
        port: Port.
        keys: API keys that it knows.
    """

    url: str
    host: str
    port: int
    keys: Sequence[str] = ()

    @classmethod
    def of(cls, url: str, keys: Sequence[str] = ()) -> Self:
        """The service at an address such as `http://127.0.0.1:8000`.

        Raises:
            ValueError: If it is not one of plain HTTP.
            OSError: If its name is unknown.
        """
        parts = urlsplit(url)
        if parts.scheme != "http" or parts.hostname is None:
            raise ValueError(f"the URL must be like http://HOST:PORT, but is {url}")
        host = socket.gethostbyname(parts.hostname)
        return cls(url=url.rstrip("/"), host=host, port=parts.port or 80, keys=tuple(keys))

    def clients(self, count: int) -> list[Client]:
        """So many that the service tells apart: by key, else, on this machine, by address.

        Raises:
            ValueError: If there are neither enough keys nor a loopback address.
        """
        if len(self.keys) >= count:
            return [Client(key=key) for key in self.keys[:count]]
        if count == 1:
            return [Client()]
        if not ipaddress.ip_address(self.host).is_loopback:
            raise ValueError(
                f"{count} clients that a service elsewhere tells apart need as many API keys in LOAD_API_KEYS"
            )
        return [Client(address=f"127.0.0.{number + 1}") for number in range(count)]

    def requests(self, client: Client, bodies: Sequence[str]) -> list[bytes]:
        """Whole HTTP requests for translations.

        Args:
            client: Who asks.
            bodies: JSON.
        """
        return [message(self.host, PATH, body, client.headers) for body in bodies]


def wait_until_ready(url: str, seconds: float) -> bool:
    """Whether a service became ready in time: loading a model is not to be measured as slowness."""
    deadline = time.monotonic() + seconds
    while not _is_ready(url):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.5)
    return True


def _is_ready(url: str) -> bool:
    try:
        with urlopen(f"{url.rstrip('/')}/readyz", timeout=2):
            return True
    except (URLError, OSError):
        return False
