"""The engine's policy, on a runner that only counts: when sentences join, and that none is lost."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.config import TransformerConfig
from model.decode_request import DecodeRequest
from model.decoding.engine import DecodingEngine
from model.decoding.sentence import Sentence
from model.errors import ConfigError, InputError, TextTooLongError
from tests.model.decoding.arrivals import watch_rows
from tests.model.decoding.networks import EOS, PAD, request
from tests.model.decoding.scripted_runner import ScriptedRunner, echo

CONFIG = TransformerConfig(source_vocab_size=30, target_vocab_size=30, max_positions=16)


def make(
    runner: ScriptedRunner, *, max_batch_tokens: int = 1000, max_encode_tokens: int = 1000
) -> DecodingEngine:
    return DecodingEngine(
        runner, CONFIG, max_batch_tokens=max_batch_tokens, max_encode_tokens=max_encode_tokens
    )


def asked(length: int = 3, steps: int = 2, beams: int = 1, first: int = 4) -> DecodeRequest:
    """A request of so many source tokens that takes so many steps."""
    return request((first, *[5] * (length - 1)), beam_size=beams, max_length=steps)


def test_sentences_are_encoded_in_order_of_arrival_within_the_tokens_of_a_step() -> None:
    runner = ScriptedRunner()
    engine = make(runner, max_encode_tokens=5)
    added = [engine.add(asked(length, steps=9)) for length in (3, 2, 1, 6, 1)]
    batches = []
    while len(batches) < 3:
        engine.step(max_steps=1)
        batches = runner.admitted
    assert batches == [added[:2], added[2:3], added[3:4]]
    engine.step(max_steps=1)
    assert batches[3] == added[4:]


def test_one_joins_in_the_step_after_another_has_left() -> None:
    runner = ScriptedRunner(max_rows=4)
    engine = make(runner)
    long = engine.add(asked(steps=5, beams=3))
    short = engine.add(asked(steps=2))
    assert not engine.fits(asked())
    late = engine.add(asked(steps=1))
    assert [s for s, _ in engine.step().finished] == [short]
    assert (engine.running, engine.rows) == (1, 3)
    assert [s for s, _ in engine.step().finished] == [late]
    assert runner.admitted == [[long, short], [late]]
    assert [s for s, _ in engine.step().finished] == [long]
    assert engine.is_idle


@pytest.mark.parametrize(
    ("bound", "most"), [({"max_rows": 4}, 4), ({"max_kv_slots": 4 * (3 + 2) + 4}, 4), ({}, 8)]
)
def test_room_is_counted_in_rows_and_kv_slots(bound: dict[str, int], most: int) -> None:
    engine = make(ScriptedRunner(**bound))
    count = 0
    while engine.fits(asked()):
        engine.add(asked())
        count += 1
    assert count == most


def test_room_is_counted_in_source_tokens_of_all_rows() -> None:
    engine = make(ScriptedRunner(), max_batch_tokens=12)
    engine.add(asked(3, beams=2))
    assert engine.fits(asked(6))
    assert not engine.fits(asked(7))
    assert engine.load == 0.5


def test_what_no_runner_holds_is_refused_by_name() -> None:
    engine = make(ScriptedRunner(max_rows=4, max_kv_slots=30))
    assert engine.fits(asked(beams=5))
    with pytest.raises(TextTooLongError, match="`beam_size` is over the limit max_rows: 5, at most 4"):
        engine.add(asked(beams=5))
    draws = request((4, EOS), strategy="sample", num_hypotheses=6)
    with pytest.raises(TextTooLongError, match="`num_hypotheses` is over the limit max_rows: 6"):
        engine.add(draws)
    with pytest.raises(TextTooLongError, match="`source_ids` is over the limit decoder positions: 51, at"):
        engine.add(asked(3, steps=12, beams=4))
    with pytest.raises(InputError, match="at least one token"):
        engine.add(request(()))
    assert engine.is_idle
    assert engine.load == 0


def test_a_step_ends_at_the_interrupt_and_the_next_is_a_whole_one() -> None:
    runner = ScriptedRunner()
    engine = make(runner)
    engine.add(asked(steps=9))
    runner.interrupt_after = 3
    assert len(engine.step().steps) == 3
    assert len(engine.step(max_steps=2).steps) == 2
    engine.interrupt()
    assert len(engine.step().steps) == 1
    assert len(engine.step().steps) == 3


@pytest.mark.parametrize("where", ["admit", "advance"])
def test_after_a_failure_of_the_runner_the_engine_is_empty_and_usable(where: str) -> None:
    runner = ScriptedRunner()
    engine = make(runner)
    sound = [engine.add(asked(steps=3)) for _ in range(2)]
    engine.step(max_steps=1)
    runner.broken = (where, 9)
    engine.add(asked(first=9))
    with pytest.raises(RuntimeError, match="out of luck"):
        engine.step()
    assert engine.is_idle
    assert engine.load == 0
    assert runner.produced == {}
    results = [engine.decode([sentence.request])[0] for sentence in sound]
    assert results == [[echo(sentence.request.source_ids)] for sentence in sound]
    with pytest.raises(RuntimeError, match="out of luck"):
        engine.decode([asked(first=9)])


def test_if_a_sentence_cannot_be_dropped_all_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    runner = ScriptedRunner()
    engine = make(runner)
    first, second = engine.add(asked(4, steps=5)), engine.add(asked(5, steps=5))
    engine.step(max_steps=1)
    drop = runner.drop

    def refuse(sentences: Sequence[Sentence]) -> None:
        drop(sentences)
        monkeypatch.undo()
        raise MemoryError

    monkeypatch.setattr(runner, "drop", refuse)
    with pytest.raises(MemoryError):
        engine.cancel(first)
    assert engine.is_idle
    assert runner.produced == {}
    assert engine.decode([second.request]) == [[echo(second.request.source_ids)]]


def test_only_a_running_sentence_has_a_stable_prefix() -> None:
    engine = make(ScriptedRunner(max_rows=1))
    running, waiting = engine.add(asked(4, steps=5)), engine.add(asked())
    assert engine.stable_prefix(running) == ()
    engine.step(max_steps=2)
    assert engine.stable_prefix(running) == (4, 5)
    assert engine.stable_prefix(waiting) == ()
    engine.cancel(running)
    assert engine.stable_prefix(running) == ()


def test_progress_has_the_seconds_of_batches_steps_and_first_tokens() -> None:
    engine = make(ScriptedRunner(max_rows=2))
    for steps in (2, 1, 1):
        engine.add(asked(steps=steps))
    for sentences in ([2, 2], [2, 1]):  # in the step, and those of them that begin
        progress = engine.step()
        assert [step.sentences for step in progress.steps] == sentences[:1]
        assert len(progress.encoder_seconds) == 1
        assert len(progress.first_token_seconds) == sentences[1]
        assert all(0 < seconds < 60 for seconds in progress.first_token_seconds)


def test_decode_keeps_the_order_of_the_requests_and_the_batch_full() -> None:
    runner, counts = ScriptedRunner(max_rows=4), list[int]()
    requests = [asked(2 + i % 5, steps=1 + i % 3, first=4 + i) for i in range(12)]
    requests.insert(3, request((PAD,)))
    results = make(runner).decode(requests, progress=counts.append)
    assert isinstance(results.pop(3), InputError)
    del requests[3]
    assert results == [[echo(r.source_ids)] for r in requests]
    lengths = [s.source_length for batch in runner.admitted for s in batch]
    assert lengths == sorted(lengths, reverse=True)
    assert sum(counts) == 13
    assert len(counts) > 3
    assert min(counts) > 0


def test_the_longest_first_keep_the_batch_full_to_the_end() -> None:
    engine = make(ScriptedRunner(max_rows=4))
    found = watch_rows(engine)
    engine.decode([asked(length, steps=length) for length in range(1, 11)])
    assert sum(found) == sum(range(1, 11))
    assert [rows for rows in found[:-4] if rows < 4] == []


def test_decode_fills_the_batch_up_by_several_at_a_time() -> None:
    runner = ScriptedRunner(max_rows=8)
    make(runner).decode([asked(3, steps=1 + i % 7) for i in range(40)])
    assert [len(batch) for batch in runner.admitted[:-1] if len(batch) < 2] == []


def test_a_decode_that_is_broken_off_leaves_nothing_behind() -> None:
    def give_up(_: int) -> None:
        raise KeyboardInterrupt

    runner = ScriptedRunner(max_rows=2)
    engine = make(runner)
    with pytest.raises(KeyboardInterrupt):
        engine.decode([asked(steps=1 + i) for i in range(5)], progress=give_up)
    assert engine.is_idle
    assert runner.produced == {}
    assert engine.decode([asked(4)]) == [[echo(asked(4).source_ids)]]


@pytest.mark.parametrize("name", ["max_batch_tokens", "max_encode_tokens"])
def test_a_bound_below_one_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=f"`{name}` must be"):
        make(ScriptedRunner(), **{name: 0})


def test_a_network_without_a_decoder_is_refused() -> None:
    config = TransformerConfig(source_vocab_size=9, target_vocab_size=9, num_decoder_layers=0)
    with pytest.raises(ConfigError, match="num_decoder_layers"):
        DecodingEngine(ScriptedRunner(), config)


actions = st.one_of(
    st.tuples(st.just("add"), st.integers(1, 16), st.integers(1, 6), st.integers(1, 5)),
    st.tuples(st.just("cancel"), st.integers(0, 50)),
    st.tuples(st.just("step"), st.integers(1, 4)),
)


@given(st.lists(actions, max_size=60), st.integers(5, 12), st.integers(60, 200), st.integers(1, 60))
def test_nothing_is_lost_nothing_is_over_budget_and_the_order_is_kept(
    script: list[tuple[str, int, int, int]], max_rows: int, max_kv_slots: int, max_tokens: int
) -> None:
    runner = ScriptedRunner(max_rows, max_kv_slots)
    engine = make(runner, max_batch_tokens=max_tokens, max_encode_tokens=20)
    added: list[Sentence] = []
    finished: list[Sentence] = []
    cancelled: set[Sentence] = set()
    for action, *numbers in script:
        if action == "add":
            length, steps, beams = numbers
            added.append(engine.add(asked(length, steps, beams)))
        elif action == "cancel" and added:
            chosen = added[numbers[0] % len(added)]
            engine.cancel(chosen)
            cancelled |= {chosen} - set(finished)
        elif action == "step":
            finished += [s for s, _ in engine.step(max_steps=numbers[0]).finished]
        tokens = sum(s.rows * s.source_length for s in runner.produced)
        assert tokens <= max_tokens or len(runner.produced) == 1
        assert engine.running == len(runner.produced)
        assert engine.rows == sum(s.rows for s in runner.produced)
    while not engine.is_idle:
        finished += [s for s, _ in engine.step().finished]
    assert len(finished) == len(set(finished))
    assert set(finished) == set(added) - cancelled
    joined = [s for batch in runner.admitted for s in batch]
    assert joined == [s for s in added if s in set(joined)]
    assert all(sum(s.source_length for s in b) <= 20 or len(b) == 1 for b in runner.admitted)
    assert (engine.load, engine.rows) == (0, 0)
