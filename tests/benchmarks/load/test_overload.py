"""What an overload did to a service, judged."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from benchmarks.load.generator import REFUSALS, Load, Sample, Seen, run
from benchmarks.load.overload import Overload, judge, overload
from benchmarks.load.target import Accounts, clients_of
from benchmarks.load.texts import sentence_requests
from tests.app.remote import Live, running


def accounts(**figures: float) -> Accounts:
    nothing = dict.fromkeys(("accepted", "answered", "refused", "abandoned", "in_flight", "resident"), 0.0)
    return Accounts(**nothing | {"in_flight": 1.0} | figures)


def sample(status: int, *, taking: float = 0.01, is_orderly: bool = True) -> Sample:
    return Sample(0, 1.0, 1.001, 1.0 + taking, status, is_orderly)


GOOD = Overload(
    capacity=1.0,
    rate=2,
    seconds=10,
    seen=Seen([sample(200, taking=2.0)] * 10 + [sample(503), sample(429)]),
    before=accounts(accepted=6, answered=5, resident=2e8),
    after=accounts(accepted=19, answered=16, refused=2, resident=2e8),
    longest_wait=3.0,
)


def missed(run: Overload) -> list[str]:
    return [level.objective for level in judge(run) if not level.is_met]


def test_a_service_that_bears_it_misses_nothing() -> None:
    assert missed(GOOD) == []


@pytest.mark.parametrize(
    ("extra", "objective"),
    [
        (Seen([sample(504)]), "answers other than 200, 429 and 503"),
        (Seen([sample(503, is_orderly=False)]), "refusals without Retry-After"),
        (Seen([sample(200, taking=3.1)]), "accepted: p99, from arrival"),
        (Seen([sample(503, taking=0.1)] * 5), "refused: p50, from sending"),
        (Seen(lost=1), "lost connections"),
        (Seen(left=1), "clients that gave up waiting"),
        (Seen(unsent=1), "sent, of 2 a second"),
    ],
)
def test_each_fault_is_named(extra: Seen, objective: str) -> None:
    seen = replace(extra, samples=[*GOOD.seen.samples, *extra.samples])
    assert objective in missed(replace(GOOD, seen=seen))


def test_what_the_service_counts_must_be_what_was_seen() -> None:
    after = GOOD.after
    assert missed(replace(GOOD, after=replace(after, answered=15, accepted=18))) == []
    assert missed(replace(GOOD, after=replace(after, answered=14, accepted=17))) == [
        "answers that were not counted"
    ]
    assert missed(replace(GOOD, after=replace(after, accepted=20))) == ["requests that are unaccounted for"]
    assert missed(replace(GOOD, after=replace(after, refused=3, accepted=20))) == [
        "refusals counted too many or too few"
    ]
    assert missed(replace(GOOD, after=replace(after, in_flight=2, accepted=20))) == [
        "requests left in flight"
    ]


def test_memory_must_come_back_and_is_no_objective_where_it_is_unknown() -> None:
    heavy = replace(GOOD.after, resident=2e8 + 65 * 2**20)
    assert missed(replace(GOOD, after=heavy)) == ["memory that did not come back"]
    unknown = replace(GOOD.after, resident=float("nan"))
    assert not any("memory" in level.objective for level in judge(replace(GOOD, after=unknown)))


# A busy machine stretches these, whatever the service does.
_TIMED = ("refused: p50", "accepted: p99", "sent, of", "good answers, of")


@pytest.fixture(scope="module")
def slow() -> Iterator[Live]:
    """A service that translates some 60 sentences a second."""
    with running(DOUBLE_SECONDS="0.1", DRAGOMAN_MAX_REQUESTS="80") as live:
        yield live


def test_ten_times_the_capacity_is_answered_or_refused_and_counted_exactly(slow: Live) -> None:
    levels = overload(slow.url, *clients_of(slow.url, 1), connections=48, seconds=1, factor=10)
    missed = [level for level in levels if not level.is_met and not level.objective.startswith(_TIMED)]
    assert missed == []
    assert slow.translate()[0] == 200


def test_a_burst_of_800_is_answered_or_refused(slow: Live) -> None:
    (client,) = clients_of(slow.url, 1)
    before = Accounts.of(slow.url)
    stream = Load(client=client, bodies=sentence_requests(), rate=1e5, seconds=800 / 1e5)
    seen = run(stream)
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
