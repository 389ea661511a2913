"""One client's sentences: the last one answers, the first failure does too."""

import pytest

from app.scheduling.backlog import SentenceJob
from app.scheduling.scheduler import PendingRequest
from model.errors import DecodingError
from model.request import Hypothesis
from tests.app.scheduling.test_backlog import job

pytestmark = pytest.mark.anyio


def found(token: int) -> list[Hypothesis]:
    return [Hypothesis((token,), -1.0, -1.0, (-1.0,), finished=True)]


def call_of(count: int) -> tuple[PendingRequest, list[SentenceJob]]:
    jobs = [job(3) for _ in range(count)]
    return PendingRequest(jobs, None), jobs


async def test_results_are_in_the_clients_order_whatever_ends_first() -> None:
    call, (first, second) = call_of(2)
    call.finished(second, found(2))
    assert (call.done.done(), call.unanswered) == (False, 1)
    call.grew(first, (1,))
    call.finished(first, found(1))
    assert call.unanswered == 0
    assert await call.done == [found(1), found(2)]


async def test_the_first_failure_is_the_answer() -> None:
    call, (first, second, third) = call_of(3)
    call.finished(second, DecodingError("one"))
    call.finished(third, DecodingError("two"))
    call.finished(first, found(1))
    assert call.unanswered == 0
    with pytest.raises(DecodingError, match="one"):
        await call.done
