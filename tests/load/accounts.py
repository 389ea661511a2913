"""What the service itself counted, read from `/metrics`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self
from urllib.request import Request, urlopen

_SECONDS = 10
_MEMORY = "process_resident_memory_bytes"


def scrape(url: str) -> Mapping[str, float]:
    """Every series of a service and its value, by the name that Prometheus' text format gives it.

    Args:
        url: Of the service.

    Raises:
        OSError: If it does not answer.
    """
    with urlopen(Request(f"{url.rstrip('/')}/metrics"), timeout=_SECONDS) as response:
        lines = str(response.read(), "utf-8").splitlines()
    pairs = (line.rpartition(" ") for line in lines if line and not line.startswith("#"))
    return {name: float(value) for name, _, value in pairs}


@dataclass(frozen=True, kw_only=True)
class Accounts:
    """What became of requests, all since the service began.

    Attributes:
        accepted: Requests that came.
        answered: Those that got an answer.
        refused: Those that were refused with a reason.
        abandoned: Those whose client left.
        in_flight: Those that are being answered, the one that asks for this among them.
        resident: Bytes of memory of the process; not a number where it does not say.
    """

    accepted: float
    answered: float
    refused: float
    abandoned: float
    in_flight: float
    resident: float

    @classmethod
    def of(cls, url: str) -> Self:
        """As they stand now.

        Raises:
            OSError: If the service does not answer.
        """
        series = scrape(url)
        return cls(
            accepted=series["dragoman_accepted_total"],
            answered=_outcome(series, "answered"),
            refused=_outcome(series, "refused"),
            abandoned=_outcome(series, "abandoned"),
            in_flight=series["dragoman_requests_in_flight"],
            resident=series.get(_MEMORY, float("nan")),
        )

    @property
    def unaccounted(self) -> float:
        """Requests without an outcome that nobody is answering either, or with two; 0 if all is well."""
        return abs(self.accepted - self.answered - self.refused - self.abandoned - self.in_flight)


def _outcome(series: Mapping[str, float], outcome: str) -> float:
    return series[f'dragoman_outcomes_total{{outcome="{outcome}"}}']
