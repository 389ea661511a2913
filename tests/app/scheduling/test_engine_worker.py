"""Engine workers: the thread, and how it ends a call of its engine."""

import os
import sys
import threading
import time
from collections.abc import Callable

import pytest

from app.scheduling.backlog import Backlog, SentenceJob
from app.scheduling.dispatcher import Dispatcher
from app.scheduling.engine_batch import StepResults
from app.scheduling.engine_worker import EngineWorker
from tests.app.double import DoubleBackend
from tests.app.scheduling.conftest import NewJob
from tests.app.scheduling.test_dispatcher import put

STEPS_PER_CALL = 2  # steps of the double are that long; a sentence may be held in either


class Heard:
    """What the worker reported, and on which threads."""

    def __init__(self) -> None:
        self.taken_jobs: list[SentenceJob] = []
        self.finished: list[SentenceJob] = []
        self.threads: set[str] = set()
        self.niceness = 0

    def stepped(self, results: StepResults, seconds: float) -> None:
        assert seconds >= 0
        self.threads.add(threading.current_thread().name)
        self.niceness = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
        self.finished += [job for job, _ in results.finished]


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def dispatcher() -> Dispatcher:
    return Dispatcher(Backlog(10_000, fair_rows=8))


@pytest.fixture
def worker(dispatcher: Dispatcher, heard: Heard) -> EngineWorker:
    return EngineWorker(0, dispatcher, on_taken=heard.taken_jobs.append, on_stepped=heard.stepped)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_a_worker_decodes_on_its_own_thread_until_it_is_stopped(
    backend: DoubleBackend, dispatcher: Dispatcher, worker: EngineWorker, job: NewJob, heard: Heard
) -> None:
    worker.start()
    jobs = [job(text) for text in ("a", "b c", "d")]
    put(dispatcher, jobs)
    until(lambda: set(heard.finished) == set(jobs))
    assert heard.taken_jobs == jobs
    assert heard.threads == {"engine-0"}
    dispatcher.stop()
    assert worker.join(60)
    put(dispatcher, [job("late")])
    assert len(heard.taken_jobs) == 3
    assert worker.silent_since() is None


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere threads have no priority of their own")
def test_the_event_loop_runs_before_the_engines(
    dispatcher: Dispatcher, worker: EngineWorker, job: NewJob, heard: Heard
) -> None:
    worker.start()
    put(dispatcher, [job("a")])
    until(lambda: bool(heard.finished))
    dispatcher.stop()
    assert worker.join(60)
    assert heard.niceness > os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


def hold_amid_a_long_sentence(
    backend: DoubleBackend, dispatcher: Dispatcher, job: NewJob
) -> tuple[SentenceJob, int]:
    """A sentence that stands still in one of its many steps, and how many steps are behind it."""
    backend.seconds = 0.001
    long = job("word " * 5000)
    put(dispatcher, [long])
    until(lambda: len(backend.engine("tiny", 0).sizes) > 20)
    backend.gate.clear()
    until(backend.held.is_set)
    backend.seconds = 0.0
    return long, len(backend.engine("tiny", 0).sizes)


def test_a_withdrawn_sentence_ends_a_long_call_after_its_step(
    backend: DoubleBackend,
    dispatcher: Dispatcher,
    worker: EngineWorker,
    job: NewJob,
    heard: Heard,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("app.scheduling.engine_batch._CALL_SECONDS", 1.0)
    worker.start()
    long, before = hold_amid_a_long_sentence(backend, dispatcher, job)
    dispatcher.withdraw([long])
    backend.gate.set()
    until(lambda: backend.cancelled == [long.request])
    dispatcher.stop()
    assert worker.join(60)
    assert len(backend.engine("tiny", 0).sizes) == before + 1
    assert long not in heard.finished


def test_a_new_sentence_joins_when_the_call_ends(
    backend: DoubleBackend, dispatcher: Dispatcher, worker: EngineWorker, job: NewJob
) -> None:
    worker.start()
    _, before = hold_amid_a_long_sentence(backend, dispatcher, job)
    put(dispatcher, [job("new " * 50)])
    backend.gate.set()
    sizes = backend.engine("tiny", 0).sizes
    until(lambda: 2 in sizes[before:])
    assert sizes.index(2, before) <= before + STEPS_PER_CALL
    dispatcher.stop()
    assert worker.join(60)


def test_a_worker_stops_when_the_call_ends(
    backend: DoubleBackend, dispatcher: Dispatcher, worker: EngineWorker, job: NewJob, heard: Heard
) -> None:
    worker.start()
    long, before = hold_amid_a_long_sentence(backend, dispatcher, job)
    dispatcher.stop()
    backend.gate.set()
    assert worker.join(60)
    assert before < len(backend.engine("tiny", 0).sizes) <= before + STEPS_PER_CALL
    assert long not in heard.finished
