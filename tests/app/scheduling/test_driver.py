"""One engine in one thread's hands: turns, refusals, growth, and finding out who is at fault."""

import time
from collections.abc import Callable, Iterator
from itertools import chain, repeat

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.errors import OutOfMemoryError
from app.scheduling.backlog import Job
from app.scheduling.engine_worker import SECONDS, Driver, Outcome, Turn
from model.decoding.runner import Progress, SilentObserver
from model.decoding.sentence import Sentence
from model.errors import DecodingError, InputError, TextTooLongError
from model.request import DecodeOptions, DecodeRequest
from tests.app.double import DoubleBackend, DoubleEngine

GREEDY = DecodeOptions(strategy="greedy")
NewJob = Callable[..., Job]


@pytest.fixture
def engine(backend: DoubleBackend) -> DoubleEngine:
    return backend.engine("tiny", 0)


@pytest.fixture
def driver(engine: DoubleEngine) -> Driver:
    return Driver(engine, SilentObserver())


@pytest.fixture
def job(backend: DoubleBackend) -> NewJob:
    def new(text: str, *, options: DecodeOptions = GREEDY, is_followed: bool = False) -> Job:
        request = DecodeRequest(tuple(backend.tokenizer.encode(text)), options)
        return Job("tiny", request, float("inf"), 0.0, is_followed)

    return new


def finish(driver: Driver) -> dict[Job, Outcome]:
    """Turns until nothing is left."""
    outcomes: dict[Job, Outcome] = {}
    for _ in range(1000):
        if driver.is_idle:
            return outcomes
        outcomes.update(driver.advance().finished)
    raise AssertionError("it never ends")


def test_a_turn_ends_with_a_sentence(
    driver: Driver, engine: DoubleEngine, job: NewJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.scheduling.engine_worker._TURN_SECONDS", 10.0)
    short, long = job("a"), job("a b c d e")
    driver.add(short)
    driver.add(long)
    assert driver.advance() == Turn()
    assert len(engine.sizes) == 1
    finished = driver.advance().finished
    assert [each for each, _ in finished] == [short]
    assert [each for each, _ in driver.advance().finished] == [long]
    assert engine.sizes == [2, 2, 1, 1, 1, 1]
    assert driver.is_idle


def test_who_joins_does_not_wait_for_a_whole_turn(driver: Driver, engine: DoubleEngine, job: NewJob) -> None:
    driver.add(job("a b c d e f g h"))
    driver.advance()
    driver.add(job("a b c d"))
    steps = len(engine.sizes)
    driver.advance()
    assert len(engine.sizes) == steps + 1


def test_slow_steps_make_short_turns(backend: DoubleBackend, driver: Driver, job: NewJob) -> None:
    backend.seconds = 0.011
    driver.add(job("a b c d e f g h"))
    for _ in range(3):
        driver.advance()
    assert len(backend.engine("tiny", 0).sizes) == 3


def test_a_dropped_sentence_is_gone_at_once(
    backend: DoubleBackend, driver: Driver, engine: DoubleEngine, job: NewJob
) -> None:
    kept, gone = job("a b"), job("c d")
    driver.add(kept)
    driver.add(gone)
    driver.advance()
    driver.drop(gone)
    driver.drop(job("never seen"))
    assert set(finish(driver)) == {kept}
    assert backend.cancelled == [gone.request]
    assert engine.sizes == [2, 1, 1]


@pytest.mark.parametrize(
    ("fault", "expected", "message"),
    [
        (InputError("no", "q"), InputError, "no"),
        (
            TextTooLongError("source_ids", "decoder positions", 10, 12),
            TextTooLongError,
            "`q`.* MAX_STATE_BYTES",
        ),
        (TextTooLongError("beam_size", "max_rows", 10, 12), TextTooLongError, "`beam_size`"),
        (ValueError("secret"), DecodingError, "could not be decoded"),
    ],
)
def test_what_the_engine_refuses_fails_alone(
    driver: Driver,
    engine: DoubleEngine,
    job: NewJob,
    monkeypatch: pytest.MonkeyPatch,
    fault: Exception,
    expected: type[Exception],
    message: str,
) -> None:
    good, bad = job("good"), job("bad")
    driver.add(good)

    def refuse(_request: DecodeRequest) -> Sentence:
        raise fault

    monkeypatch.setattr(engine, "add", refuse)
    driver.add(bad)
    outcomes = finish(driver)
    assert isinstance(outcomes[good], list)
    with pytest.raises(expected, match=message):
        raise outcomes[bad]  # type: ignore[misc]


@pytest.mark.parametrize("culprits", [(0,), (6,), (12,), (0, 5, 12), tuple(range(13))])
def test_only_the_culprits_fail_wherever_they_stand(
    backend: DoubleBackend, driver: Driver, job: NewJob, culprits: tuple[int, ...]
) -> None:
    backend.poison = "bad"
    jobs = [job("bad" if i in culprits else f"w{i} x") for i in range(13)]
    for each in jobs:
        driver.add(each)
    outcomes = finish(driver)
    assert set(outcomes) == set(jobs)
    for i, each in enumerate(jobs):
        assert isinstance(outcomes[each], DecodingError if i in culprits else list)


def test_nobody_joins_those_under_suspicion(backend: DoubleBackend, driver: Driver, job: NewJob) -> None:
    backend.poison = "bad"
    for text in ("a", "bad", "c"):
        driver.add(job(text))
    driver.advance()
    newcomer = job("new")
    assert not driver.fits(newcomer)
    finish(driver)
    assert driver.fits(newcomer)


def test_suspects_can_be_dropped(backend: DoubleBackend, driver: Driver, job: NewJob) -> None:
    backend.poison = "bad"
    jobs = [job(text) for text in ("a", "bad", "c", "d")]
    for each in jobs:
        driver.add(each)
    driver.advance()
    for each in jobs[1:]:
        driver.drop(each)
    assert set(finish(driver)) == {jobs[0]}


def test_nothing_is_kept_of_suspects_that_are_gone(
    backend: DoubleBackend,
    engine: DoubleEngine,
    driver: Driver,
    job: NewJob,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    backend.poison = "bad"
    jobs = [job(text, is_followed=True) for text in ("a", "bad", "c", "d")]
    for each in jobs:
        driver.add(each)
    driver.advance()
    for each in jobs[2:]:
        driver.drop(each)

    def refuse(_request: DecodeRequest) -> Sentence:
        raise InputError("no", "q")

    monkeypatch.setattr(engine, "add", refuse)
    assert set(finish(driver)) == set(jobs[:2])
    assert driver._shown == {}
    monkeypatch.undo()
    for each in jobs:
        driver.add(each)
    driver.advance()
    for each in jobs:
        driver.drop(each)
    assert driver.is_idle
    assert driver._groups == []


def test_a_sample_that_starts_again_draws_the_same_numbers(
    backend: DoubleBackend, driver: Driver, job: NewJob
) -> None:
    backend.poison = "bad"
    sampled = job("a b", options=DecodeOptions(strategy="sample"))
    driver.add(sampled)
    driver.add(job("bad"))
    outcomes = finish(driver)
    assert isinstance(outcomes[sampled], list)
    seeds = [each.options.seed for each in backend.admitted if each.options.strategy == "sample"]
    assert seeds == [None, 7]


def test_growth_is_told_of_followed_sentences_only(
    backend: DoubleBackend, driver: Driver, job: NewJob
) -> None:
    backend.seconds = 0.011
    followed, other = job("a b c", is_followed=True), job("d e f")
    driver.add(followed)
    driver.add(other)
    told = [driver.advance().grown for _ in range(4)]
    ids = followed.request.source_ids
    assert told == [[(followed, ids[:1])], [(followed, ids[:2])], [(followed, ids[:3])], []]


def test_growth_goes_on_where_it_was_after_a_failure(
    backend: DoubleBackend, driver: Driver, job: NewJob
) -> None:
    backend.seconds = 0.011
    followed = job("a b c d e", is_followed=True)
    driver.add(followed)
    told = [driver.advance().grown for _ in range(3)]
    driver.add(job("bad"))
    backend.poison = "bad"
    while not driver.is_idle:
        told.append(driver.advance().grown)
    lengths = [len(ids) for grown in told for _, ids in grown]
    assert lengths == [1, 2, 3, 4, 5]


def exhaust(engine: DoubleEngine, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """Let its steps find no memory for more than so many sentences."""
    step = engine.step

    def limited(observer: SilentObserver, *, max_steps: int) -> Progress:
        if engine.running + len(engine._arrivals) > most:
            engine._arrivals.clear()
            engine._running.clear()
            raise MemoryError
        return step(observer, max_steps=max_steps)

    monkeypatch.setattr(engine, "step", limited)


def test_who_finds_no_memory_starts_again_with_half_the_company(
    driver: Driver, engine: DoubleEngine, job: NewJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    exhaust(engine, monkeypatch, most=2)
    jobs = [job(f"w{i} x y z") for i in range(8)]
    for each in jobs:
        driver.add(each)
    outcomes = finish(driver)
    assert all(isinstance(outcomes[each], list) for each in jobs)
    assert max(engine.sizes) == 2


def test_an_engine_that_ran_out_of_memory_gets_half_as_much_for_a_while(
    driver: Driver, engine: DoubleEngine, job: NewJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    exhaust(engine, monkeypatch, most=3)
    for i in range(4):
        driver.add(job(f"w{i} x y z"))
    finish(driver)
    newcomers = [job(f"n{i} x y z") for i in range(3)]
    assert driver.fits(newcomers[0])
    driver.add(newcomers[0])
    assert driver.fits(newcomers[1])
    driver.add(newcomers[1])
    assert not driver.fits(newcomers[2])
    later = time.monotonic() + SECONDS
    monkeypatch.setattr("app.scheduling.engine_worker.time.monotonic", lambda: later)
    assert driver.fits(newcomers[2])


def test_who_finds_no_memory_even_alone_is_refused_alone(
    driver: Driver, engine: DoubleEngine, job: NewJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    exhaust(engine, monkeypatch, most=0)
    jobs = [job("a"), job("b")]
    for each in jobs:
        driver.add(each)
    outcomes = finish(driver)
    assert all(isinstance(outcomes[each], OutOfMemoryError) for each in jobs)


def test_an_engine_that_cannot_say_how_far_it_is_loses_nobody(
    backend: DoubleBackend, driver: Driver, engine: DoubleEngine, job: NewJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend.seconds = 0.011
    jobs = [job("a b c", is_followed=True), job("d e f")]
    for each in jobs:
        driver.add(each)
    agreed = engine.agreed
    answers: Iterator[Callable[[Sentence], tuple[int, ...]]] = chain([_broken], repeat(agreed))
    monkeypatch.setattr(engine, "agreed", lambda sentence: next(answers)(sentence))
    outcomes = finish(driver)
    assert all(isinstance(outcomes[each], list) for each in jobs)


def test_an_engine_that_cannot_take_a_sentence_back_loses_nobody_else(
    driver: Driver, engine: DoubleEngine, job: NewJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone, *others = jobs = [job("a b c"), job("d e f"), job("g h i j")]
    for each in jobs:
        driver.add(each)
    driver.advance()

    def cancel(_sentence: Sentence) -> None:
        engine._running.clear()
        monkeypatch.undo()
        raise MemoryError

    monkeypatch.setattr(engine, "cancel", cancel)
    driver.drop(gone)
    assert not driver.is_idle
    outcomes = finish(driver)
    assert outcomes.keys() == set(others)
    assert all(isinstance(outcome, list) for outcome in outcomes.values())


def test_an_engine_that_can_neither_say_nor_take_back_loses_nobody(
    driver: Driver, engine: DoubleEngine, job: NewJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [job("a b c", is_followed=True), job("d e f")]
    for each in jobs:
        driver.add(each)
    refusals = iter(jobs)

    def cancel(_sentence: Sentence) -> None:
        engine._running.clear()
        if next(refusals, None) is jobs[-1]:
            monkeypatch.undo()
        raise RuntimeError

    monkeypatch.setattr(engine, "agreed", _broken)
    monkeypatch.setattr(engine, "cancel", cancel)
    outcomes = finish(driver)
    assert all(isinstance(outcomes[each], list) for each in jobs)


def _broken(_sentence: Sentence) -> tuple[int, ...]:
    raise MemoryError


@settings(max_examples=100)
@given(
    kinds=st.lists(st.sampled_from(["good", "bad", "gone"]), max_size=24),
    most=st.integers(0, 24),
    batches=st.integers(1, 4),
)
def test_whatever_breaks_everyone_is_answered_exactly_once(kinds: list[str], most: int, batches: int) -> None:
    """Some steps raise, some find no memory, some sentences are taken back in between."""
    backend = DoubleBackend()
    backend.poison = "bad"
    engine = backend.engine("tiny", 0)
    driver = Driver(engine, SilentObserver())
    words = {"good": "w x y", "bad": "bad w x", "gone": "g h i j k"}
    options = DecodeOptions(strategy="greedy")
    jobs = {
        Job("tiny", DecodeRequest(tuple(backend.tokenizer.encode(words[kind])), options), 1.0, 0.0): kind
        for kind in kinds
    }
    told: list[tuple[Job, Outcome]] = []
    waiting = list(jobs)
    with pytest.MonkeyPatch.context() as monkeypatch:
        exhaust(engine, monkeypatch, most)
        while waiting or not driver.is_idle:
            while waiting and driver.fits(waiting[0]) and len(driver._jobs) < 24 // batches:
                driver.add(waiting.pop(0))
            told += driver.advance().finished
            for each, kind in jobs.items():
                if kind == "gone" and each in driver._sentences:
                    driver.drop(each)
    outcomes = dict(told)
    assert len(told) == len(outcomes)
    assert set(outcomes) >= {each for each, kind in jobs.items() if kind != "gone"}
    for each, outcome in outcomes.items():
        expected = list if most and jobs[each] != "bad" else (DecodingError if most else OutOfMemoryError)
        assert isinstance(outcome, expected)
