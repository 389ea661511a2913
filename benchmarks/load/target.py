"""The service under load: its address, the clients it tells apart, and what it has counted."""

import ipaddress
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit
from urllib.request import urlopen

from benchmarks.load.generator import message

READY_SECONDS = 120
_SETTLING_SECONDS = 30.0


def keys_of(named: str) -> list[str]:
    """API keys that are separated by commas, as in LOAD_API_KEYS."""
    return [key for key in named.split(",") if key]


@dataclass(frozen=True, kw_only=True)
class Client:
    """A client, told apart by its API key or, with a local address to come from, by that."""

    key: str | None = None
    address: str | None = None

    @property
    def headers(self) -> dict[str, str]:
        """Header fields that identify the client."""
        return {"Authorization": f"Bearer {self.key}"} if self.key else {}


@dataclass(frozen=True, kw_only=True)
class Target:
    """A service: its URL without a slash at the end, its address, and API keys that it knows."""

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
        """That many clients that the service tells apart: by key, else, on this machine, by address.

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
        """Whole HTTP requests for translations, from JSON bodies."""
        return [message(self.host, body, client.headers) for body in bodies]


def wait_until_ready(url: str, seconds: float) -> bool:
    """Whether a service became ready in time: loading a model must not be measured as slowness."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            with urlopen(f"{url.rstrip('/')}/readyz", timeout=2):
                return True
        except OSError:
            time.sleep(0.5)
    return False


def scrape(url: str) -> Mapping[str, float]:
    """Every series of a service's `/metrics` and its value, by the name that Prometheus' format gives it.

    Raises:
        OSError: If the service does not answer.
    """
    with urlopen(f"{url.rstrip('/')}/metrics", timeout=10) as response:
        lines = str(response.read(), "utf-8").splitlines()
    pairs = (line.rpartition(" ") for line in lines if line and not line.startswith("#"))
    return {name: float(value) for name, _, value in pairs}


@dataclass(frozen=True, kw_only=True)
class Accounts:
    """What the service has counted since it began."""

    accepted: float  # requests that arrived
    answered: float  # requests that got an answer
    refused: float  # requests that were refused with a reason
    abandoned: float  # requests whose client left
    in_flight: float  # requests that are being answered, the one for these figures among them
    resident: float  # bytes of memory of the process; NaN where it does not say

    @classmethod
    def of(cls, url: str) -> Self:
        """The figures at this moment.

        Raises:
            OSError: If the service does not answer.
        """
        series = scrape(url)
        outcomes = ("answered", "refused", "abandoned")
        return cls(
            accepted=series["dragoman_accepted_total"],
            in_flight=series["dragoman_requests_in_flight"],
            resident=series.get("process_resident_memory_bytes", float("nan")),
            **{name: series[f'dragoman_outcomes_total{{outcome="{name}"}}'] for name in outcomes},
        )

    @classmethod
    def settled(cls, url: str) -> Self:
        """The figures once no request but the one for them is in flight, or after half a minute.

        Raises:
            OSError: If the service does not answer.
        """
        until = time.monotonic() + _SETTLING_SECONDS
        while (accounts := cls.of(url)).in_flight > 1 and time.monotonic() < until:
            time.sleep(0.1)
        return accounts

    @property
    def unaccounted(self) -> float:
        """Requests that have no outcome and are not in flight, or have two; 0 if all is well."""
        return abs(self.accepted - self.answered - self.refused - self.abandoned - self.in_flight)
