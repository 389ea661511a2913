"""The thread between two turns: it is called rather than polling, and it ends when told."""

import threading
import time
from collections.abc import Callable

import pytest

from app.scheduling.backlog import Backlog, Job
from app.scheduling.dispatcher import Exchange
from app.scheduling.engine_worker import Driver, Turn, Worker
from model.decoding.runner import SilentObserver
from model.request import DecodeOptions, DecodeRequest
from tests.app.double import DoubleBackend

STEPS_OF_A_TURN = 2  # those of the double are so long; a sentence may be held in either


class Heard:
    """What the worker reported, and on which threads."""

    def __init__(self) -> None:
        self.taken_jobs: list[Job] = []
        self.finished: list[Job] = []
        self.threads: set[str] = set()

    def taken(self, job: Job) -> None:
        self.taken_jobs.append(job)

    def advanced(self, turn: Turn, seconds: float) -> None:
        assert seconds >= 0
        self.finished += [job for job, _ in turn.finished]
        self.threads.add(threading.current_thread().name)


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def exchange() -> Exchange:
    return Exchange(Backlog(10_000, fair_rows=8))


@pytest.fixture
def worker(backend: DoubleBackend, exchange: Exchange, heard: Heard) -> Worker:
    driver = Driver(backend.engine("tiny", 0), SilentObserver())
    return Worker("engine-0", {"tiny": driver}, exchange, heard)


def job(backend: DoubleBackend, text: str) -> Job:
    options = DecodeOptions(strategy="greedy")
    request = DecodeRequest(tuple(backend.tokenizer.encode(text)), options)
    return Job("tiny", request, float("inf"), time.monotonic())


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_it_works_on_its_own_thread_and_ends_when_told(
    backend: DoubleBackend, exchange: Exchange, worker: Worker, heard: Heard
) -> None:
    worker.start()
    jobs = [job(backend, text) for text in ("a", "b c", "d")]
    exchange.put(jobs)
    until(lambda: set(heard.finished) == set(jobs))
    assert heard.taken_jobs == jobs
    assert heard.threads == {"engine-0"}
    exchange.stop()
    assert worker.join(5)
    exchange.put([job(backend, "late")])
    assert len(heard.taken_jobs) == 3
    assert worker.silent_since() is None


def test_a_thread_that_never_began_need_not_be_waited_for(worker: Worker) -> None:
    assert worker.join(5)


def hold_amid_a_long_sentence(backend: DoubleBackend, exchange: Exchange) -> tuple[Job, int]:
    """A sentence that stands still in one of its many steps, and how many steps are behind it."""
    backend.seconds = 0.001
    long = job(backend, "word " * 5000)
    exchange.put([long])
    until(lambda: len(backend.engine("tiny", 0).sizes) > 20)
    backend.gate.clear()
    until(backend.held.is_set)
    backend.seconds = 0.0
    return long, len(backend.engine("tiny", 0).sizes)


def test_a_client_that_leaves_ends_a_long_turn_after_the_step_it_is_at(
    backend: DoubleBackend,
    exchange: Exchange,
    worker: Worker,
    heard: Heard,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("app.scheduling.engine_worker._TURN_SECONDS", 1.0)
    worker.start()
    long, before = hold_amid_a_long_sentence(backend, exchange)
    exchange.withdraw([long])
    backend.gate.set()
    until(lambda: backend.cancelled == [long.request])
    exchange.stop()
    assert worker.join(30)
    assert len(backend.engine("tiny", 0).sizes) == before + 1
    assert long not in heard.finished


def test_an_arrival_joins_when_the_turn_ends(
    backend: DoubleBackend, exchange: Exchange, worker: Worker
) -> None:
    worker.start()
    _, before = hold_amid_a_long_sentence(backend, exchange)
    exchange.put([job(backend, "new " * 50)])
    backend.gate.set()
    sizes = backend.engine("tiny", 0).sizes
    until(lambda: 2 in sizes[before:])
    assert sizes.index(2, before) <= before + STEPS_OF_A_TURN
    exchange.stop()
    assert worker.join(30)


def test_the_end_comes_when_the_turn_ends(
    backend: DoubleBackend, exchange: Exchange, worker: Worker, heard: Heard
) -> None:
    worker.start()
    long, before = hold_amid_a_long_sentence(backend, exchange)
    exchange.stop()
    backend.gate.set()
    assert worker.join(30)
    assert before < len(backend.engine("tiny", 0).sizes) <= before + STEPS_OF_A_TURN
    assert long not in heard.finished
