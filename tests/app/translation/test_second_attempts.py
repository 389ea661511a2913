"""Second attempts: who gets one, for how long, and that none ever costs the first."""

import asyncio
import time
from collections.abc import Sequence

import pytest

from app.errors import DeadlinePassedError, DrainingError, QueueFullError
from app.scheduling.scheduler import ModelRequest
from app.telemetry.metrics import Metrics
from app.translation.catalogue import Catalogue
from app.translation.reader import Reader
from app.translation.request import TranslationRequest
from app.translation.second_attempts import SecondAttempts
from model.errors import DecodingError
from model.request import Hypothesis
from model.translation.result import SentenceTranslation
from tests.app.double import DoubleBackend

pytestmark = pytest.mark.anyio
BACKEND = DoubleBackend()
ORDER = TranslationRequest(
    texts=("Fine. It goes round and on",),
    fields=("q",),
    source="en",
    target="fr",
    deadline=time.monotonic() + 1e6,
    client="somebody",
)
(ITEM,) = Reader(Catalogue(BACKEND.models())).read(ORDER)


def found(text: str) -> list[Hypothesis]:
    return [Hypothesis(tuple(BACKEND.tokenizer.encode(text)[:-1]), -1.0, -1.0, (), finished=True)]


class Engines:
    """Stands in for the scheduler: gives what it was told to, and remembers what it was asked."""

    def __init__(self, outcome: list[Hypothesis] | Exception) -> None:
        self.outcome = outcome
        self.asked: list[tuple[Sequence[ModelRequest], float, str]] = []

    async def submit(
        self, sentences: Sequence[ModelRequest], deadline: float, *, client: str
    ) -> list[list[Hypothesis]]:
        self.asked.append((sentences, deadline, client))
        await asyncio.sleep(0)
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return [self.outcome]


async def improve(
    engines: Engines, *results: list[Hypothesis], is_watched: bool = False
) -> tuple[list[SentenceTranslation], dict[str, float | None]]:
    metrics = Metrics()
    retries = SecondAttempts(engines, metrics)  # type: ignore[arg-type]
    sentences = await retries.improve(ORDER, [ITEM], ITEM.sentences(results), is_watched=is_watched)
    registry, name = metrics.registry, "dragoman_degenerate_retries_total"
    outcomes = ("kept", "discarded", "impossible")
    return sentences, {each: registry.get_sample_value(name, {"outcome": each}) for each in outcomes}


async def test_what_looks_broken_is_tried_once_more_alone_and_for_its_client() -> None:
    engines = Engines(found("around"))
    sentences, outcomes = await improve(engines, found("bien."), found("rond " * 9))
    assert [sentence.texts[0] for sentence in sentences] == ["BIEN.", "AROUND"]
    assert outcomes == {"kept": 1, "discarded": 0, "impossible": 0}
    (((model, request),), deadline, client) = engines.asked[0]
    assert (model, client) == ("tiny", "somebody")
    assert request.source_ids == ITEM.requests[1].source_ids
    left = ORDER.deadline - time.monotonic()
    assert deadline - time.monotonic() == pytest.approx(left / 2, rel=0.01)
    assert len(engines.asked) == 1


async def test_what_is_no_better_is_discarded() -> None:
    sentences, outcomes = await improve(Engines(found("rund " * 9)), found("bien."), found("rond " * 9))
    assert sentences[1].texts[0].startswith("ROND")
    assert outcomes == {"kept": 0, "discarded": 1, "impossible": 0}


@pytest.mark.parametrize(
    "fault", [QueueFullError(1), DrainingError(), DeadlinePassedError(), DecodingError("no")], ids=repr
)
async def test_whatever_stands_against_it_the_first_one_is_given(fault: Exception) -> None:
    sentences, outcomes = await improve(Engines(fault), found("bien."), found("rond " * 9))
    assert sentences[1].texts[0].startswith("ROND")
    assert outcomes == {"kept": 0, "discarded": 0, "impossible": 1}


async def test_nobody_asks_where_all_is_well_or_was_seen_to_grow() -> None:
    engines = Engines(found("never"))
    await improve(engines, found("bien."), found("tourne"))
    sentences, _ = await improve(engines, found("bien."), found("rond " * 9), is_watched=True)
    assert sentences[1].diagnosis is not None
    assert engines.asked == []


async def test_a_fault_keeps_its_type_and_its_place() -> None:
    with pytest.raises(MemoryError) as fault:
        await improve(Engines(MemoryError()), found("rond " * 9), found("rond " * 9))
    places = [entry.name for entry in fault.traceback]
    assert places[-2:] == ["_try_again", "submit"]
    assert "improve" in places


async def test_whoever_gives_up_ends_the_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    engines, ended = Engines(found("around")), asyncio.Event()

    async def submit(*_: object, **__: object) -> list[list[Hypothesis]]:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        raise AssertionError

    monkeypatch.setattr(engines, "submit", submit)
    task = asyncio.create_task(improve(engines, found("bien."), found("rond " * 9)))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()
