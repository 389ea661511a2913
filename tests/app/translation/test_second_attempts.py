"""Second attempts as HTTP does not show them: for whom and for how long they are, and their faults."""

import threading
import time
from collections.abc import Sequence
from functools import partial

import pytest

from app.scheduling.scheduler import ModelRequest
from app.telemetry.metrics import Metrics
from app.translation.catalogue import Catalogue
from app.translation.reader import Reader
from app.translation.requests import TranslationRequest
from app.translation.service import TranslationService
from model.decode_request import Hypothesis
from model.translation.result import SentenceTranslation
from tests.app.double import DoubleBackend, hypotheses, request_of

pytestmark = pytest.mark.anyio
BACKEND = DoubleBackend()
REQUEST = request_of("Fine. It goes round and on", client="alice")
((JOB,),) = (text.jobs for text in Reader(Catalogue(BACKEND.models())).plan(REQUEST))
JOB.read()


found = partial(hypotheses, BACKEND.tokenizer)


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
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return [self.outcome]


async def improve(
    engines: Engines, *results: list[Hypothesis], request: TranslationRequest = REQUEST
) -> list[SentenceTranslation]:
    service = TranslationService(BACKEND.models(), None, engines, Metrics())  # type: ignore[arg-type]
    return await service._improve(JOB.sentences(results), [BACKEND.models()[0]] * len(results), request)


async def test_a_broken_sentence_is_tried_once_more_for_its_client() -> None:
    engines = Engines(found("around"))
    sentences = await improve(engines, found("bien."), found("rond " * 9))
    assert [sentence.texts[0] for sentence in sentences] == ["BIEN.", "AROUND"]
    (((model, request),), deadline, client) = engines.asked[0]
    assert (model.card.name, client) == ("tiny", "alice")
    assert request.source_ids == JOB.requests[1].source_ids
    left = REQUEST.deadline - time.monotonic()
    assert deadline - time.monotonic() == pytest.approx(left / 2, rel=0.01)
    assert len(engines.asked) == 1


async def test_the_second_translation_of_a_long_text_is_finished_in_a_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads = []

    def record(first: SentenceTranslation, *_: object) -> SentenceTranslation:
        threads.append(threading.get_ident())
        return first

    monkeypatch.setattr("app.translation.service.better_of", record)
    for text in ("short", "long " * 1000):
        request = request_of(text, client="alice")
        await improve(Engines(found("around")), found("bien."), found("rond " * 9), request=request)
    assert threads[0] == threading.get_ident() != threads[1]


async def test_a_fault_keeps_its_type_and_traceback() -> None:
    with pytest.raises(MemoryError) as fault:
        await improve(Engines(MemoryError()), found("rond " * 9), found("rond " * 9))
    places = [entry.name for entry in fault.traceback]
    assert places[-2:] == ["_try_again", "submit"]
    assert "_improve" in places
