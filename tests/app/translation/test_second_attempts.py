"""Second attempts: which sentences get one, for how long, and that the first attempt is never lost."""

import asyncio
import time
from collections.abc import Sequence

import pytest

from app.errors import DeadlinePassedError, DrainingError, QueueFullError
from app.scheduling.scheduler import ModelRequest
from app.telemetry.metrics import Metrics
from app.translation.catalogue import Catalogue
from app.translation.jobs import TranslationRequest
from app.translation.reader import Reader
from app.translation.service import TranslationService
from model.decode_request import Hypothesis
from model.errors import DecodingError
from model.translation.result import SentenceTranslation
from tests.app.double import DoubleBackend

pytestmark = pytest.mark.anyio
BACKEND = DoubleBackend()
REQUEST = TranslationRequest(
    texts=("Fine. It goes round and on",),
    fields=("q",),
    source="en",
    target="fr",
    deadline=time.monotonic() + 1e6,
    client="alice",
)
((JOB,),) = (text.jobs for text in Reader(Catalogue(BACKEND.models())).plan(REQUEST))
JOB.read()


def found(text: str) -> list[Hypothesis]:
    return [Hypothesis(tuple(BACKEND.tokenizer.encode(text)[:-1]), -1.0, -1.0, (), finished=True)]


class Engines:
    """Stands in for the scheduler: returns a given outcome, and records its calls."""

    max_queued_tokens = 1000

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
    engines: Engines, *results: list[Hypothesis], has_no_model: bool = False
) -> tuple[list[SentenceTranslation], dict[str, float | None]]:
    metrics = Metrics()
    service = TranslationService(BACKEND.models(), None, engines, metrics)  # type: ignore[arg-type]
    models = [None if has_no_model else BACKEND.models()[0]] * len(results)
    sentences = await service._improve(JOB.sentences(results), models, REQUEST)
    registry, name = metrics.registry, "dragoman_degenerate_retries_total"
    outcomes = ("kept", "discarded", "impossible")
    return sentences, {each: registry.get_sample_value(name, {"outcome": each}) for each in outcomes}


async def test_a_broken_sentence_is_tried_once_more_for_its_client() -> None:
    engines = Engines(found("around"))
    sentences, outcomes = await improve(engines, found("bien."), found("rond " * 9))
    assert [sentence.texts[0] for sentence in sentences] == ["BIEN.", "AROUND"]
    assert outcomes == {"kept": 1, "discarded": 0, "impossible": 0}
    (((model, request),), deadline, client) = engines.asked[0]
    assert (model.card.name, client) == ("tiny", "alice")
    assert request.source_ids == JOB.requests[1].source_ids
    left = REQUEST.deadline - time.monotonic()
    assert deadline - time.monotonic() == pytest.approx(left / 2, rel=0.01)
    assert len(engines.asked) == 1


async def test_a_second_attempt_that_is_no_better_is_discarded() -> None:
    sentences, outcomes = await improve(Engines(found("rund " * 9)), found("bien."), found("rond " * 9))
    assert sentences[1].texts[0].startswith("ROND")
    assert outcomes == {"kept": 0, "discarded": 1, "impossible": 0}


@pytest.mark.parametrize(
    "fault", [QueueFullError(1), DrainingError(), DeadlinePassedError(), DecodingError("no")], ids=repr
)
async def test_a_second_attempt_that_fails_leaves_the_first(fault: Exception) -> None:
    sentences, outcomes = await improve(Engines(fault), found("bien."), found("rond " * 9))
    assert sentences[1].texts[0].startswith("ROND")
    assert outcomes == {"kept": 0, "discarded": 0, "impossible": 1}


async def test_sound_sentences_and_those_without_a_model_get_no_second_attempt() -> None:
    engines = Engines(found("never"))
    await improve(engines, found("bien."), found("tourne"))
    sentences, _ = await improve(engines, found("bien."), found("rond " * 9), has_no_model=True)
    assert sentences[1].diagnosis is not None
    assert engines.asked == []


async def test_a_fault_keeps_its_type_and_traceback() -> None:
    with pytest.raises(MemoryError) as fault:
        await improve(Engines(MemoryError()), found("rond " * 9), found("rond " * 9))
    places = [entry.name for entry in fault.traceback]
    assert places[-2:] == ["_try_again", "submit"]
    assert "_improve" in places


async def test_cancelling_ends_the_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
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
