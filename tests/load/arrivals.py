"""What a service is asked when requests do not wait for the answers to earlier ones, and what came of it."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

REFUSALS = (429, 503)


@dataclass(frozen=True, kw_only=True)
class Stream:
    """What is asked of a service.

    Attributes:
        host: Its address.
        port: Its port.
        requests: Whole HTTP messages, sent in turn.
        rate: Requests a second, on average.
        seconds: How long they come.
        patience: How many seconds the last ones wait for their answers before their client leaves.
        sources: Local addresses that connections come from, in turn; None leaves it to the system.
        most_connections: Requests beyond these wait, on this side, for a free one.
        seed: Of the times of arrival.
    """

    host: str
    port: int
    requests: Sequence[bytes]
    rate: float
    seconds: float
    patience: float = 60.0
    sources: Sequence[str | None] = (None,)
    most_connections: int = 3000
    seed: int = 1

    def arrivals(self) -> Iterator[float]:
        """When requests are to be sent, in seconds from the beginning."""
        draw = random.Random(self.seed)
        moment = draw.expovariate(self.rate)
        while moment < self.seconds:
            yield moment
            moment += draw.expovariate(self.rate)


class Sample(NamedTuple):
    """One request that was answered.

    Attributes:
        intended: When it was meant to be sent.
        sent: When it was.
        ended: When its answer was whole, all in seconds from the beginning.
        status: HTTP status.
        is_orderly: Whether it was no refusal, or one that says when to come again.
    """

    intended: float
    sent: float
    ended: float
    status: int
    is_orderly: bool


@dataclass
class Seen:
    """What came of a stream.

    Attributes:
        samples: Of each answer.
        lost: Requests whose connection ended, or could not be made.
        left: Requests whose client left, as nothing had come for so long.
        unsent: Requests that had found no connection when the stream ended.
        processor: Seconds of computing that it took to send and to measure.
    """

    samples: list[Sample] = field(default_factory=list)
    lost: int = 0
    left: int = 0
    unsent: int = 0
    processor: float = 0.0

    def goodput(self, seconds: float) -> float:
        """Good answers a second that came while a stream of so many seconds lasted."""
        return sum(sample.status == 200 and sample.ended <= seconds for sample in self.samples) / seconds
