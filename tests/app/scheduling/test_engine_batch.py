"""The sentences of one engine: steps, faults that are isolated, and memory that runs out."""

import time
from collections.abc import Callable, Iterable
from typing import Never

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.errors import OutOfMemoryError
from app.scheduling.backlog import SentenceJob
from app.scheduling.engine_batch import (
    BACKOFF_SECONDS,
    EngineBatch,
    Outcome,
    as_failure,
    failure_reason,
)
from model.decode_request import DecodeOptions, DecodeRequest
from model.decoding.runner import Progress
from model.decoding.sentence import Sentence
from model.errors import DecodingError, InputError, NotFiniteError, TextTooLongError
from tests.app.double import DoubleBackend, DoubleEngine
from tests.app.scheduling.conftest import GREEDY, NewJob


@pytest.fixture
def engine(backend: DoubleBackend) -> DoubleEngine:
    return backend.engine("tiny", 0)


@pytest.fixture
def batch(engine: DoubleEngine) -> EngineBatch:
    return EngineBatch(engine)


def add_all(batch: EngineBatch, jobs: Iterable[SentenceJob]) -> None:
    for each in jobs:
        batch.add(each)


def raising(fault: Exception) -> Callable[[object], Never]:
    def fail(_argument: object) -> Never:
        raise fault

    return fail


def finish(batch: EngineBatch) -> dict[SentenceJob, Outcome]:
    """Step until nothing is left."""
    outcomes: dict[SentenceJob, Outcome] = {}
    for _ in range(1000):
        if batch.is_idle:
            return outcomes
        outcomes.update(batch.step().finished)
    raise AssertionError("it never ends")


def test_a_call_ends_with_a_sentence(
    batch: EngineBatch, engine: DoubleEngine, job: NewJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.scheduling.engine_batch._CALL_SECONDS", 10.0)
    short, long = job("a"), job("a b c d e")
    batch.add(short)
    batch.add(long)
    assert not batch.step().finished
    assert len(engine.sizes) == 1
    finished = batch.step().finished
    assert [each for each, _ in finished] == [short]
    assert [each for each, _ in batch.step().finished] == [long]
    assert engine.sizes == [2, 2, 1, 1, 1, 1]
    assert batch.is_idle


def test_a_sentence_that_joins_does_not_wait_for_a_whole_call(
    batch: EngineBatch, engine: DoubleEngine, job: NewJob
) -> None:
    batch.add(job("a b c d e f g h"))
    batch.step()
    batch.add(job("a b c d"))
    steps = len(engine.sizes)
    batch.step()
    assert len(engine.sizes) == steps + 1


def test_slow_steps_make_short_calls(backend: DoubleBackend, batch: EngineBatch, job: NewJob) -> None:
    backend.seconds = 0.011
    batch.add(job("a b c d e f g h"))
    for _ in range(3):
        batch.step()
    assert len(backend.engine("tiny", 0).sizes) == 3


def test_a_dropped_sentence_is_gone_at_once(
    backend: DoubleBackend, batch: EngineBatch, engine: DoubleEngine, job: NewJob
) -> None:
    kept, gone = job("a b"), job("c d")
    batch.add(kept)
    batch.add(gone)
    batch.step()
    batch.drop(gone)
    batch.drop(job("never seen"))
    assert set(finish(batch)) == {kept}
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
def test_a_sentence_that_the_engine_rejects_fails_alone(
    batch: EngineBatch,
    engine: DoubleEngine,
    job: NewJob,
    monkeypatch: pytest.MonkeyPatch,
    fault: Exception,
    expected: type[Exception],
    message: str,
) -> None:
    good, bad = job("good"), job("bad")
    batch.add(good)

    monkeypatch.setattr(engine, "add", raising(fault))
    batch.add(bad)
    outcomes = finish(batch)
    assert isinstance(outcomes[good], list)
    with pytest.raises(expected, match=message):
        raise outcomes[bad]  # type: ignore[misc]


def test_no_sentence_joins_suspects(backend: DoubleBackend, batch: EngineBatch, job: NewJob) -> None:
    backend.poison = "bad"
    for text in ("a", "bad", "c"):
        batch.add(job(text))
    batch.step()
    newcomer = job("new")
    assert not batch.fits(newcomer)
    finish(batch)
    assert batch.fits(newcomer)


def test_nothing_is_kept_of_suspects_that_are_gone(
    backend: DoubleBackend,
    engine: DoubleEngine,
    batch: EngineBatch,
    job: NewJob,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    backend.poison = "bad"
    jobs = [job(text, is_streamed=True) for text in ("a", "bad", "c", "d")]
    add_all(batch, jobs)
    batch.step()
    for each in jobs[2:]:
        batch.drop(each)
    monkeypatch.setattr(engine, "add", raising(InputError("no", "q")))
    assert set(finish(batch)) == set(jobs[:2])
    assert batch._num_shown == {}
    monkeypatch.undo()
    add_all(batch, jobs)
    batch.step()
    for each in jobs:
        batch.drop(each)
    assert batch.is_idle
    assert batch._groups == []


def test_a_sample_that_starts_again_draws_the_same_numbers(
    backend: DoubleBackend, batch: EngineBatch, job: NewJob
) -> None:
    backend.poison = "bad"
    sampled = job("a b", options=DecodeOptions(strategy="sample"))
    batch.add(sampled)
    batch.add(job("bad"))
    outcomes = finish(batch)
    assert isinstance(outcomes[sampled], list)
    seeds = [each.options.seed for each in backend.admitted if each.options.strategy == "sample"]
    assert seeds == [None, 7]


def test_growth_of_streamed_sentences_is_reported(
    backend: DoubleBackend, batch: EngineBatch, job: NewJob
) -> None:
    backend.seconds = 0.011
    followed, other = job("a b c", is_streamed=True), job("d e f")
    batch.add(followed)
    batch.add(other)
    told = [batch.step().grown for _ in range(4)]
    ids = followed.request.source_ids
    assert told == [[(followed, ids[:1])], [(followed, ids[:2])], [(followed, ids[:3])], []]


def test_growth_goes_on_where_it_was_after_a_failure(
    backend: DoubleBackend, batch: EngineBatch, job: NewJob
) -> None:
    backend.seconds = 0.011
    followed = job("a b c d e", is_streamed=True)
    batch.add(followed)
    told = [batch.step().grown for _ in range(3)]
    batch.add(job("bad"))
    backend.poison = "bad"
    while not batch.is_idle:
        told.append(batch.step().grown)
    lengths = [len(ids) for grown in told for _, ids in grown]
    assert lengths == [1, 2, 3, 4, 5]


def exhaust(engine: DoubleEngine, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """Let its steps find no memory for more than so many sentences."""
    step = engine.step

    def limited(*, max_steps: int) -> Progress:
        if engine.running + len(engine._arrivals) > most:
            engine._arrivals.clear()
            engine._running.clear()
            raise MemoryError
        return step(max_steps=max_steps)

    monkeypatch.setattr(engine, "step", limited)


def test_an_engine_that_ran_out_of_memory_gets_half_as_much_for_a_while(
    batch: EngineBatch, engine: DoubleEngine, job: NewJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    exhaust(engine, monkeypatch, most=3)
    for i in range(4):
        batch.add(job(f"w{i} x y z"))
    finish(batch)
    newcomers = [job(f"n{i} x y z") for i in range(4)]
    assert batch.fits(job("alone " * 30)), "a single sentence is always tried"
    batch.add(newcomers[0])
    assert batch.fits(newcomers[1])
    batch.add(newcomers[1])
    assert not batch.fits(newcomers[2])
    exhaust(engine, monkeypatch, most=1)
    finish(batch)
    batch.add(newcomers[2])
    assert not batch.fits(newcomers[3]), "half of what it had when it ran out again"
    later = time.monotonic() + BACKOFF_SECONDS
    monkeypatch.setattr("app.scheduling.engine_batch.time.monotonic", lambda: later)
    assert batch.fits(newcomers[3])


def test_an_engine_that_raises_in_cancel_loses_no_other_sentence(
    batch: EngineBatch, engine: DoubleEngine, job: NewJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone, *others = jobs = [job("a b c"), job("d e f"), job("g h i j")]
    add_all(batch, jobs)
    batch.step()

    def cancel(_sentence: Sentence) -> None:
        engine._running.clear()
        monkeypatch.undo()
        raise MemoryError

    monkeypatch.setattr(engine, "cancel", cancel)
    batch.drop(gone)
    assert not batch.is_idle
    outcomes = finish(batch)
    assert outcomes.keys() == set(others)
    assert all(isinstance(outcome, list) for outcome in outcomes.values())


def test_an_engine_that_raises_in_both_loses_no_sentence(
    batch: EngineBatch, engine: DoubleEngine, job: NewJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [job("a b c", is_streamed=True), job("d e f")]
    add_all(batch, jobs)
    refusals = iter(jobs)

    def cancel(_sentence: Sentence) -> None:
        engine._running.clear()
        if next(refusals, None) is jobs[-1]:
            monkeypatch.undo()
        raise RuntimeError

    monkeypatch.setattr(engine, "stable_prefix", raising(MemoryError()))
    monkeypatch.setattr(engine, "cancel", cancel)
    outcomes = finish(batch)
    assert all(isinstance(outcomes[each], list) for each in jobs)


@settings(max_examples=100)
@given(
    kinds=st.lists(st.sampled_from(["good", "bad", "gone"]), max_size=24),
    most=st.integers(0, 24),
    batches=st.integers(1, 4),
)
def test_whatever_raises_each_sentence_has_one_outcome(kinds: list[str], most: int, batches: int) -> None:
    """Some steps raise, some find no memory, some sentences are dropped in between."""
    backend = DoubleBackend()
    backend.poison = "bad"
    engine = backend.engine("tiny", 0)
    batch = EngineBatch(engine)
    words = {"good": "w x y", "bad": "bad w x", "gone": "g h i j k"}
    jobs = {
        SentenceJob(
            "tiny", DecodeRequest(tuple(backend.tokenizer.encode(words[kind])), GREEDY), 1.0, 0.0
        ): kind
        for kind in kinds
    }
    told: list[tuple[SentenceJob, Outcome]] = []
    waiting = list(jobs)
    with pytest.MonkeyPatch.context() as monkeypatch:
        exhaust(engine, monkeypatch, most)
        while waiting or not batch.is_idle:
            while waiting and batch.fits(waiting[0]) and len(batch._jobs) < 24 // batches:
                batch.add(waiting.pop(0))
            told += batch.step().finished
            for each, kind in jobs.items():
                if kind == "gone" and each in batch._sentences:
                    batch.drop(each)
    outcomes = dict(told)
    assert len(told) == len(outcomes)
    assert set(outcomes) >= {each for each, kind in jobs.items() if kind != "gone"}
    for each, outcome in outcomes.items():
        expected = list if most and jobs[each] != "bad" else (DecodingError if most else OutOfMemoryError)
        assert isinstance(outcome, expected)


# What a failure is called


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        ([], None),
        (InputError("no"), None),
        (TextTooLongError("q", "MAX_CHARS", 1, 2), None),
        (NotFiniteError(), "non_finite"),
        (OutOfMemoryError(), "out_of_memory"),
        (DecodingError("nothing left"), "fault"),
    ],
)
def test_every_outcome_has_its_reason(outcome: Outcome, reason: str | None) -> None:
    assert failure_reason(outcome) == reason


def test_an_unknown_fault_is_logged_and_hidden_from_the_client(caplog: pytest.LogCaptureFixture) -> None:
    failure = as_failure(ValueError("internals"))
    assert isinstance(failure, DecodingError)
    assert "internals" not in str(failure)
    assert "internals" in caplog.text
