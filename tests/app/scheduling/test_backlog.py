"""What waits: order, cost, room."""

import dataclasses

from hypothesis import given
from hypothesis import strategies as st

from app.scheduling.backlog import Backlog, Job
from model.request import DecodeOptions, DecodeRequest

GREEDY = DecodeOptions(strategy="greedy")


def job(
    length: int, *, rows: int = 1, model: str = "m", deadline: float = float("inf"), client: str = ""
) -> Job:
    options = GREEDY if rows == 1 else dataclasses.replace(GREEDY, strategy="beam", beam_size=rows)
    return Job(model, DecodeRequest((5,) * length, options), deadline, arrival=0.0, client=client)


def backlog_of(*jobs: Job, max_queued: int = 10_000) -> Backlog:
    backlog = Backlog(max_queued, fair_rows=8)
    backlog.add(jobs)
    return backlog


def test_a_beam_is_charged_for_each_row() -> None:
    assert job(10, rows=4).cost == 40
    assert job(0).cost == 1


def test_the_oldest_of_each_checkpoint_is_seen() -> None:
    one, other, again = job(1, model="a"), job(2, model="b"), job(4, model="a")
    backlog = backlog_of(one, other, again)
    assert backlog.first("a", now=0) is one
    assert backlog.first("b", now=0) is other
    assert backlog.first("c", now=0) is None
    assert (backlog.tokens_of("a"), backlog.tokens_of("b"), backlog.tokens_of("c")) == (5, 2, 0)
    backlog.remove(one)
    assert backlog.first("a", now=0) is again


def test_the_expired_are_forgotten() -> None:
    early, late = job(3, deadline=10.0), job(4, deadline=50.0)
    backlog = backlog_of(early, late)
    assert backlog.first("m", now=10.0) is late
    assert (len(backlog), backlog.queued_tokens) == (1, 4)
    assert backlog.first("m", now=50.0) is None
    assert (len(backlog), backlog.queued_tokens) == (0, 0)


def test_removing_gives_room_back() -> None:
    first, second = job(40), job(50)
    backlog = backlog_of(first, second, max_queued=100)
    assert backlog.has_room(10, "another")
    assert not backlog.has_room(11, "another")
    assert (backlog.excess(10, "another"), backlog.excess(11, "another")) == (0, 1)
    assert backlog.remove(first)
    assert not backlog.remove(first)
    assert not backlog.remove(job(1, model="unknown"))
    assert backlog.has_room(50, "another")


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 120), st.booleans()), max_size=60))
def test_whatever_is_not_removed_comes_out_in_order_of_arrival(shapes: list[tuple[str, int, bool]]) -> None:
    jobs = [job(length, model=model) for model, length, _ in shapes]
    backlog = backlog_of(*jobs, max_queued=10**9)
    kept = [each for each, (_, _, is_kept) in zip(jobs, shapes, strict=True) if is_kept]
    for each in jobs:
        assert each in kept or backlog.remove(each)
    assert backlog.queued_tokens == sum(each.cost for each in kept)
    for model in "ab":
        for expected in (each for each in kept if each.model == model):
            assert backlog.first(model, now=0) is expected
            backlog.remove(expected)
    assert (len(backlog), backlog.queued_tokens) == (0, 0)
