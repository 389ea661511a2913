"""What an engine is given after it ran out of memory."""

import pytest

from app.scheduling.backlog import SentenceJob
from app.scheduling.engine_worker import BACKOFF_SECONDS, OomBackoff
from model.request import DecodeOptions, DecodeRequest


@pytest.fixture
def backoff() -> OomBackoff:
    return OomBackoff()


def jobs(*costs: int) -> list[SentenceJob]:
    options = DecodeOptions(strategy="greedy")
    return [SentenceJob("tiny", DecodeRequest((4,) * cost, options), float("inf"), 0.0) for cost in costs]


def test_before_anything_happened_there_is_none(backoff: OomBackoff) -> None:
    assert backoff.permits(jobs(1000), 1000, now=0.0)


def test_half_of_what_was_too_much_may_run(backoff: OomBackoff) -> None:
    backoff.start(jobs(30, 70), now=100.0)
    assert backoff.permits(jobs(30), 20, now=100.0)
    assert not backoff.permits(jobs(30), 21, now=100.0)


def test_one_sentence_alone_is_always_worth_a_try(backoff: OomBackoff) -> None:
    backoff.start(jobs(10), now=100.0)
    assert backoff.permits([], 1000, now=100.0)


def test_it_is_lifted_after_a_while(backoff: OomBackoff) -> None:
    backoff.start(jobs(10), now=100.0)
    assert not backoff.permits(jobs(5), 5, now=100.0 + BACKOFF_SECONDS - 0.1)
    assert backoff.permits(jobs(5), 5, now=100.0 + BACKOFF_SECONDS)


def test_running_out_again_lowers_it_again(backoff: OomBackoff) -> None:
    backoff.start(jobs(100), now=100.0)
    backoff.start(jobs(40), now=110.0)
    assert not backoff.permits(jobs(10), 11, now=110.0 + BACKOFF_SECONDS - 1)
    assert backoff.permits(jobs(10), 10, now=110.0 + BACKOFF_SECONDS - 1)
