"""Ten times the capacity of a real process: every request has its answer, and is counted once."""

import asyncio
from collections.abc import Iterator

import pytest

from tests.app.remote import Live, running
from tests.load.accounts import Accounts
from tests.load.arrivals import REFUSALS, Stream
from tests.load.open_loop import send
from tests.load.overload import overload
from tests.load.target import Target
from tests.load.texts import sentence_requests

# A busy machine stretches these, whatever the service does.
_TIMED = ("refused: p50", "accepted: p99", "sent, of", "good answers, of")


@pytest.fixture(scope="module")
def slow() -> Iterator[Live]:
    """A service that translates some 60 sentences a second."""
    with running(DOUBLE_SECONDS="0.1", DRAGOMAN_MAX_REQUESTS="80") as live:
        yield live


def test_ten_times_the_capacity_is_answered_or_refused_and_counted_exactly(slow: Live) -> None:
    levels = overload(Target.of(slow.url), connections=48, seconds=2, factor=10)
    missed = [level for level in levels if not level.is_met and not level.objective.startswith(_TIMED)]
    assert missed == []
    assert slow.translate()[0] == 200


def test_a_burst_of_800_is_answered_or_refused(slow: Live) -> None:
    target = Target.of(slow.url)
    (client,) = target.clients(1)
    requests = target.requests(client, sentence_requests())
    before = Accounts.of(slow.url)
    stream = Stream(host=target.host, port=target.port, requests=requests, rate=1e5, seconds=800 / 1e5)
    seen = asyncio.run(send(stream))
    after = Accounts.of(slow.url)
    refused = [sample for sample in seen.samples if sample.status in REFUSALS]
    answered = [sample for sample in seen.samples if sample.status == 200]
    assert len(refused) + len(answered) == len(list(stream.arrivals())) > 700
    assert all(sample.is_orderly for sample in refused)
    assert refused
    assert len(answered) >= 80 / 2
    assert after.refused - before.refused == len(refused)
    # The scrapes before is an answer, too.
    assert after.answered - before.answered == len(answered) + 1
    assert after.unaccounted == 0
