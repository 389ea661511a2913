"""The thread between two turns: it is called rather than polling, and it ends when told."""

import threading
import time
from collections.abc import Callable

import pytest

from app.scheduling.backlog import Backlog, SentenceJob
from app.scheduling.dispatcher import Dispatcher
from app.scheduling.engine_worker import EngineBatch, EngineWorker, StepResults
from model.decoding.runner import SilentObserver
from model.request import DecodeOptions, DecodeRequest
from tests.app.double import DoubleBackend

STEPS_OF_A_TURN = 2  # those of the double are so long; a sentence may be held in either


class Heard:
    """What the worker reported, and on which threads."""

    def __init__(self) -> None:
        self.taken_jobs: list[SentenceJob] = []
        self.finished: list[SentenceJob] = []
        self.threads: set[str] = set()

    def taken(self, job: SentenceJob) -> None:
        self.taken_jobs.append(job)

    def stepped(self, results: StepResults, seconds: float) -> None:
        assert seconds >= 0
        self.finished += [job for job, _ in results.finished]
        self.threads.add(threading.current_thread().name)


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def dispatcher() -> Dispatcher:
    return Dispatcher(Backlog(10_000, fair_rows=8))


@pytest.fixture
def worker(backend: DoubleBackend, dispatcher: Dispatcher, heard: Heard) -> EngineWorker:
    batch = EngineBatch(backend.engine("tiny", 0), SilentObserver())
    return EngineWorker("engine-0", {"tiny": batch}, dispatcher, heard)


def job(backend: DoubleBackend, text: str) -> SentenceJob:
    options = DecodeOptions(strategy="greedy")
    request = DecodeRequest(tuple(backend.tokenizer.encode(text)), options)
    return SentenceJob("tiny", request, float("inf"), time.monotonic())


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_it_works_on_its_own_thread_and_ends_when_told(
    backend: DoubleBackend, dispatcher: Dispatcher, worker: EngineWorker, heard: Heard
) -> None:
    worker.start()
    jobs = [job(backend, text) for text in ("a", "b c", "d")]
    dispatcher.put(jobs)
    until(lambda: set(heard.finished) == set(jobs))
    assert heard.taken_jobs == jobs
    assert heard.threads == {"engine-0"}
    dispatcher.stop()
    assert worker.join(5)
    dispatcher.put([job(backend, "late")])
    assert len(heard.taken_jobs) == 3
    assert worker.silent_since() is None


def test_a_thread_that_never_began_need_not_be_waited_for(worker: EngineWorker) -> None:
    assert worker.join(5)


def hold_amid_a_long_sentence(backend: DoubleBackend, dispatcher: Dispatcher) -> tuple[SentenceJob, int]:
    """A sentence that stands still in one of its many steps, and how many steps are behind it."""
    backend.seconds = 0.001
    long = job(backend, "word " * 5000)
    dispatcher.put([long])
    until(lambda: len(backend.engine("tiny", 0).sizes) > 20)
    backend.gate.clear()
    until(backend.held.is_set)
    backend.seconds = 0.0
    return long, len(backend.engine("tiny", 0).sizes)


def test_a_client_that_leaves_ends_a_long_turn_after_the_step_it_is_at(
    backend: DoubleBackend,
    dispatcher: Dispatcher,
    worker: EngineWorker,
    heard: Heard,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("app.scheduling.engine_worker._CALL_SECONDS", 1.0)
    worker.start()
    long, before = hold_amid_a_long_sentence(backend, dispatcher)
    dispatcher.withdraw([long])
    backend.gate.set()
    until(lambda: backend.cancelled == [long.request])
    dispatcher.stop()
    assert worker.join(30)
    assert len(backend.engine("tiny", 0).sizes) == before + 1
    assert long not in heard.finished


def test_an_arrival_joins_when_the_turn_ends(
    backend: DoubleBackend, dispatcher: Dispatcher, worker: EngineWorker
) -> None:
    worker.start()
    _, before = hold_amid_a_long_sentence(backend, dispatcher)
    dispatcher.put([job(backend, "new " * 50)])
    backend.gate.set()
    sizes = backend.engine("tiny", 0).sizes
    until(lambda: 2 in sizes[before:])
    assert sizes.index(2, before) <= before + STEPS_OF_A_TURN
    dispatcher.stop()
    assert worker.join(30)


def test_the_end_comes_when_the_turn_ends(
    backend: DoubleBackend, dispatcher: Dispatcher, worker: EngineWorker, heard: Heard
) -> None:
    worker.start()
    long, before = hold_amid_a_long_sentence(backend, dispatcher)
    dispatcher.stop()
    backend.gate.set()
    assert worker.join(30)
    assert before < len(backend.engine("tiny", 0).sizes) <= before + STEPS_OF_A_TURN
    assert long not in heard.finished
