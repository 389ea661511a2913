"""The service under load: the clients it tells apart, and what it has counted."""

import ipaddress
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit
from urllib.request import urlopen

from benchmarks.load.generator import Client

_SETTLING_SECONDS = 30.0


def clients_of(url: str, count: int, keys: Sequence[str] = ()) -> list[Client]:
    """That many clients of the service at a URL such as `http://127.0.0.1:8000`.

    It tells them apart by their API keys or, if there are too few of them, by their loopback addresses.

    Raises:
        ValueError: If the URL is not one of plain HTTP, or there are neither keys nor a loopback address.
        OSError: If its name is unknown.
    """
    parts = urlsplit(url)
    if parts.scheme != "http" or parts.hostname is None:
        raise ValueError(f"the URL must be like http://HOST:PORT, but is {url}")
    host, port = socket.gethostbyname(parts.hostname), parts.port or 80
    if len(keys) >= count:
        return [Client(host=host, port=port, key=key) for key in keys[:count]]
    if count == 1:
        return [Client(host=host, port=port)]
    if not ipaddress.ip_address(host).is_loopback:
        raise ValueError(
            f"{count} clients that a service elsewhere tells apart need as many API keys in LOAD_API_KEYS"
        )
    return [Client(host=host, port=port, address=f"127.0.0.{number + 1}") for number in range(count)]


def wait_until_ready(url: str, seconds: float) -> bool:
    """Returns whether a service became ready in time: loading a model must not be measured as slowness."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            fetch(url, "/readyz", timeout=2)
            return True
        except OSError:
            time.sleep(0.5)
    return False


def fetch(url: str, path: str, timeout: float = 10) -> bytes:
    """The answer to a GET request; raises OSError if there is none, or one that is no success."""
    with urlopen(url.rstrip("/") + path, timeout=timeout) as response:
        answer: bytes = response.read()
    return answer


def scrape(url: str) -> Mapping[str, float]:
    """Every series of a service's `/metrics` and its value, by the name that Prometheus' format gives it.

    Raises:
        OSError: If the service does not answer.
    """
    lines = str(fetch(url, "/metrics"), "utf-8").splitlines()
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
        """The figures at this moment; raises OSError if the service does not answer."""
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
        """The figures once no request but the one for them is in flight, or after half a minute."""
        until = time.monotonic() + _SETTLING_SECONDS
        while (accounts := cls.of(url)).in_flight > 1 and time.monotonic() < until:
            time.sleep(0.1)
        return accounts

    @property
    def unaccounted(self) -> float:
        """Requests that have no outcome and are not in flight, or have two; 0 if all is well."""
        return abs(self.accepted - self.answered - self.refused - self.abandoned - self.in_flight)
