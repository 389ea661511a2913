"""One engine in one thread's hands: turns, refusals, growth, and finding out who is at fault."""

from collections.abc import Callable

import pytest

from app.scheduling.backlog import Job
from app.scheduling.driver import Driver, Turn
from model.decoding.observer import SilentObserver
from model.decoding.runner import Result
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


def finish(driver: Driver) -> dict[Job, Result]:
    """Turns until nothing is left."""
    outcomes: dict[Job, Result] = {}
    for _ in range(1000):
        if driver.is_idle:
            return outcomes
        outcomes.update(driver.advance().finished)
    raise AssertionError("it never ends")


def test_a_turn_ends_with_a_sentence(driver: Driver, engine: DoubleEngine, job: NewJob) -> None:
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
    assert not driver.fits(newcomer.request)
    finish(driver)
    assert driver.fits(newcomer.request)


def test_suspects_can_be_dropped(backend: DoubleBackend, driver: Driver, job: NewJob) -> None:
    backend.poison = "bad"
    jobs = [job(text) for text in ("a", "bad", "c", "d")]
    for each in jobs:
        driver.add(each)
    driver.advance()
    for each in jobs[1:]:
        driver.drop(each)
    assert set(finish(driver)) == {jobs[0]}


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
