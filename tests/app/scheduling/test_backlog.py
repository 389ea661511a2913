"""The backlog: order, cost, bounds, and the row limit with a clock that is moved by hand."""

import dataclasses
import math

from hypothesis import given
from hypothesis import strategies as st

from app.scheduling.backlog import SPAN_SECONDS, Backlog, RowLimit, SentenceJob
from model.decode_request import DecodeOptions, DecodeRequest

GREEDY = DecodeOptions(strategy="greedy")
MINIMUM = 8


def job(
    length: int,
    *,
    rows: int = 1,
    model: str = "m",
    deadline: float = float("inf"),
    client: str = "",
    arrival: float = 0.0,
) -> SentenceJob:
    options = GREEDY if rows == 1 else dataclasses.replace(GREEDY, strategy="beam", beam_size=rows)
    return SentenceJob(model, DecodeRequest((5,) * length, options), deadline, arrival, client=client)


def backlog_of(*jobs: SentenceJob, max_queued: int = 10_000) -> Backlog:
    backlog = Backlog(max_queued, fair_rows=8)
    backlog.add(jobs)
    return backlog


def test_a_beam_is_charged_for_each_row() -> None:
    assert job(10, rows=4).cost == 40
    assert job(0).cost == 1


def test_sentences_past_their_deadline_are_removed() -> None:
    early, late = job(3, deadline=10.0), job(4, deadline=50.0)
    backlog = backlog_of(early, late)
    assert backlog.first("m", now=10.0) is late
    assert (len(backlog), backlog.tokens.taken) == (1, 4)
    assert backlog.first("m", now=50.0) is None
    assert (len(backlog), backlog.tokens.taken) == (0, 0)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 120), st.booleans()), max_size=60))
def test_one_client_is_served_in_order_of_arrival(shapes: list[tuple[str, int, bool]]) -> None:
    jobs = [job(length, model=model) for model, length, _ in shapes]
    backlog = backlog_of(*jobs, max_queued=10**9)
    kept = [each for each, (_, _, is_kept) in zip(jobs, shapes, strict=True) if is_kept]
    for each in jobs:
        assert each in kept or backlog.remove(each)
    assert backlog.tokens.taken == sum(each.cost for each in kept)
    for model in "ab":
        for expected in (each for each in kept if each.model == model):
            assert backlog.first(model, now=0) is expected
            backlog.remove(expected)
    assert (len(backlog), backlog.tokens.taken) == (0, 0)


def test_clients_take_turns_in_each_checkpoint() -> None:
    jobs = [job(10, client=client) for client in "aaabbb"]
    backlog = backlog_of(*jobs, job(10, client="a", model="other"))
    order = []
    while (found := backlog.first("m", now=0.0)) is not None:
        backlog.take(found)
        backlog.give_back(found)
        order.append(found.client)
    assert "".join(order) == "ababab"
    assert (len(backlog), backlog.tokens.taken, backlog.tokens_of("other")) == (1, 10, 10)


def test_a_client_waits_for_its_own_sentences_and_as_much_of_each_other() -> None:
    backlog = backlog_of(job(30, client="a"), job(500, client="b"), job(7, client="c"))
    assert backlog.tokens_before("a") == 30 + 30 + 7
    assert backlog.tokens_before("b") == 500 + 30 + 7
    assert backlog.tokens_before("new") == 0


def test_a_greedy_client_gets_no_more_rows_than_a_modest_one() -> None:
    greedy = [job(5, rows=4, client="greedy") for _ in range(5)]
    modest = job(5, rows=4, client="modest")
    backlog = Backlog(10_000, fair_rows=1)
    backlog.add([*greedy, modest])
    taken = []
    while (found := backlog.first("m", now=0.0)) is not None:
        backlog.take(found)
        taken.append(found)
    assert taken == [greedy[0], modest], "one each, as neither may have more than the minimum"
    assert backlog.is_rationed
    backlog.give_back(greedy[0])
    assert backlog.first("m", now=0.0) is greedy[1]
    backlog.give_back(modest)
    assert backlog.first("m", now=5.0) is greedy[1]
    assert not backlog.is_rationed, "it is alone again"


CLIENT_ACTIONS = st.lists(
    st.tuples(st.sampled_from(["put", "take", "end", "leave"]), st.sampled_from("abc"), st.integers(0, 9)),
    max_size=80,
)


@given(CLIENT_ACTIONS)
def test_nothing_remains_once_all_sentences_have_ended(actions: list[tuple[str, str, int]]) -> None:
    backlog = Backlog(10_000, fair_rows=1)
    waiting: list[SentenceJob] = []
    taken: list[SentenceJob] = []
    for now, (action, client, number) in enumerate(actions):
        if action == "put":
            waiting.append(job(1 + number, rows=1 + number % 3, client=client))
            backlog.add(waiting[-1:])
        elif action == "take" and (found := backlog.first("m", now / 5)) is not None:
            backlog.take(found)
            waiting.remove(found)
            taken.append(found)
        elif action == "end" and taken:
            backlog.give_back(taken.pop(number % len(taken)))
        elif action == "leave" and waiting:
            assert backlog.remove(waiting.pop(number % len(waiting)))
        assert (len(backlog), backlog.tokens.taken) == (len(waiting), sum(each.cost for each in waiting))
        assert taken or not waiting or backlog.first("m", now / 5) is not None, "some sentence may always run"
    for each in taken:
        backlog.give_back(each)
    for each in waiting:
        assert backlog.remove(each)
    remains = (backlog.tokens.of_client, backlog._queues, backlog._taken_rows, backlog.row_limit._wanted)
    assert remains == ({}, {}, {}, {})


# The row limit


def later(spans: float) -> float:
    return spans * SPAN_SECONDS


def test_a_lone_client_has_no_row_limit() -> None:
    row_limit = RowLimit(MINIMUM)
    assert row_limit.limit(0.0) == math.inf
    for span in range(5):
        row_limit.add("greedy", 60, later(span))
        assert row_limit.limit(later(span)) == math.inf


def test_a_new_client_is_taken_for_modest() -> None:
    row_limit = RowLimit(MINIMUM)
    row_limit.add("greedy", 240, later(0))
    row_limit.add("greedy", 0, later(1))
    assert row_limit.limit(later(1.5)) == math.inf
    row_limit.add("other", 240, later(1.5))
    assert row_limit.limit(later(1.5)) == MINIMUM
    assert row_limit.limit(later(2.6)) == 240, "both are greedy"


def test_the_least_demanding_client_sets_the_row_limit() -> None:
    row_limit = RowLimit(MINIMUM)
    for span in range(3):
        row_limit.add("greedy", 100, later(span))
        for _ in range(20):
            row_limit.add("modest", 12, later(span))
            row_limit.remove("modest", 12)
    assert row_limit.limit(later(2)) == 12


def test_a_client_that_left_is_forgotten_after_two_spans() -> None:
    row_limit = RowLimit(MINIMUM)
    row_limit.add("greedy", 100, later(0))
    row_limit.add("modest", 4, later(0.5))
    row_limit.remove("modest", 4)
    assert row_limit.limit(later(0.9)) == MINIMUM
    assert row_limit.limit(later(1.1)) == MINIMUM
    assert row_limit.limit(later(2.2)) == math.inf


def test_a_long_pause_is_no_span() -> None:
    row_limit = RowLimit(MINIMUM)
    row_limit.add("a", 4, later(0))
    row_limit.remove("a", 4)
    row_limit.add("b", 4, later(100))
    assert row_limit.limit(later(100)) == math.inf


STEPS = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(1, 50), st.floats(0, 0.7), st.booleans()), max_size=60
)


@given(STEPS)
def test_the_row_limit_keeps_nothing_of_clients_that_left(steps: list[tuple[str, int, float, bool]]) -> None:
    row_limit, now = RowLimit(MINIMUM), 0.0
    open_: list[tuple[str, int]] = []
    for client, rows, wait, ends in steps:
        now += later(wait)
        row_limit.add(client, rows, now)
        open_.append((client, rows))
        assert row_limit.limit(now) >= MINIMUM
        if ends:
            row_limit.remove(*open_.pop(0))
    for client, rows in open_:
        row_limit.remove(client, rows)
    assert row_limit._wanted == {}
    assert row_limit.limit(now + later(1)) >= MINIMUM
    assert row_limit.limit(now + later(2.1)) == math.inf
