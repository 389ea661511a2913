"""The policy alone, with a clock of our own."""

import dataclasses

from hypothesis import given
from hypothesis import strategies as st

from app.scheduling.backlog import Backlog, Job
from model.request import DecodeOptions, DecodeRequest

GREEDY = DecodeOptions(strategy="greedy")


def job(
    length: int, *, rows: int = 1, model: str = "m", deadline: float = 100.0, arrival: float = 0.0
) -> Job:
    options = GREEDY if rows == 1 else dataclasses.replace(GREEDY, strategy="beam", beam_size=rows)
    return Job(model, DecodeRequest((5,) * length, options), deadline, arrival)


def backlog_of(*jobs: Job, max_queued: int = 10_000, max_batch: int = 100) -> Backlog:
    backlog = Backlog(max_queued_tokens=max_queued, max_batch_tokens=max_batch)
    backlog.add(jobs)
    return backlog


def test_everything_that_fits_leaves_together_in_order_of_arrival() -> None:
    jobs = [job(10) for _ in range(12)]
    backlog = backlog_of(*jobs)
    assert backlog.take(now=0).batch == jobs[:10]
    assert backlog.take(now=0).batch == jobs[10:]
    assert backlog.take(now=0).batch == []
    assert (len(backlog), backlog.queued_tokens) == (0, 0)


def test_padding_is_charged_for() -> None:
    short, long = [job(1) for _ in range(4)], job(30)
    assert backlog_of(*short[:2], long, *short[2:]).take(now=0).batch == [*short[:2], long]


def test_beams_are_charged_for_each_row() -> None:
    jobs = [job(10, rows=4) for _ in range(3)]
    assert backlog_of(*jobs).take(now=0).batch == jobs[:2]
    assert jobs[0].cost == 40


def test_a_sentence_over_the_budget_goes_alone() -> None:
    huge, small = job(500), job(1)
    backlog = backlog_of(huge, small)
    assert backlog.take(now=0).batch == [huge]
    assert backlog.take(now=0).batch == [small]


def test_the_oldest_always_leaves_so_none_starves() -> None:
    small, huge = job(60), job(90)
    backlog = backlog_of(small, huge, *[job(60) for _ in range(5)])
    assert backlog.take(now=0).batch == [small]
    assert backlog.take(now=0).batch == [huge]


def test_a_batch_is_of_one_checkpoint() -> None:
    one, other, again = job(1, model="a"), job(1, model="b"), job(1, model="a")
    backlog = backlog_of(one, other, again)
    assert backlog.take(now=0).batch == [one, again]
    assert backlog.take(now=0).batch == [other]


def test_the_expired_are_never_decoded() -> None:
    late, early = job(3, deadline=50.0), job(3, deadline=10.0)
    backlog = backlog_of(early, late)
    turn = backlog.take(now=10.0)
    assert (turn.expired, turn.batch) == ([early], [late])
    assert backlog.queued_tokens == 0


def test_removing_gives_room_back() -> None:
    first, second = job(40), job(50)
    backlog = backlog_of(first, second, max_queued=100)
    assert backlog.has_room(10)
    assert not backlog.has_room(11)
    assert backlog.remove([first, job(1)]) == [first]
    assert backlog.remove([first]) == []
    assert backlog.has_room(50)


@given(st.lists(st.tuples(st.integers(1, 120), st.integers(1, 6)), max_size=60))
def test_every_sentence_leaves_once_and_within_the_budget(shapes: list[tuple[int, int]]) -> None:
    jobs = [job(length, rows=rows) for length, rows in shapes]
    backlog = backlog_of(*jobs, max_queued=10**9)
    taken: list[Job] = []
    while len(backlog):
        batch = backlog.take(now=0).batch
        assert batch[0] is next(each for each in jobs if each not in taken)
        rows, longest = sum(each.rows for each in batch), max(each.length for each in batch)
        assert len(batch) == 1 or rows * longest <= 100
        taken.extend(batch)
    assert len(taken) == len(jobs) == len(set(taken))
