"""Several engines share the work and give what one gives."""

from collections.abc import Sequence

import pytest

from model.config import TransformerConfig
from model.decode_request import DecodeRequest
from model.decoding.engine import DecodingEngine
from model.errors import InputError
from model.translation.translator import decode_in_parallel
from tests.model.decoding.networks import PAD, request
from tests.model.decoding.scripted_runner import ScriptedRunner, echo

CONFIG = TransformerConfig(source_vocab_size=30, target_vocab_size=30, max_positions=16)


def engines(runners: Sequence[ScriptedRunner]) -> list[DecodingEngine]:
    return [DecodingEngine(runner, CONFIG) for runner in runners]


def asked(count: int) -> list[DecodeRequest]:
    return [request((4 + i, *[5] * (i % 9)), beam_size=1, max_length=1 + i % 3) for i in range(count)]


@pytest.mark.parametrize("count", [0, 1, 2, 20])
@pytest.mark.parametrize("num_engines", [1, 3])
def test_the_order_is_that_of_the_requests(num_engines: int, count: int) -> None:
    requests, told = asked(count), list[int]()
    runners = [ScriptedRunner() for _ in range(num_engines)]
    results = decode_in_parallel(engines(runners), requests, told.append)
    assert results == [[echo(each.source_ids)] for each in requests]
    assert sum(told) == count
    assert sum(bool(runner.admitted) for runner in runners) == min(count, num_engines)


def test_each_gets_sentences_of_every_length() -> None:
    runners = [ScriptedRunner(), ScriptedRunner()]
    decode_in_parallel(engines(runners), asked(18))
    totals = [sum(s.source_length for batch in runner.admitted for s in batch) for runner in runners]
    assert sum(totals) == 2 * sum(range(1, 10))
    assert abs(totals[0] - totals[1]) <= 9


def test_a_bad_request_fails_alone() -> None:
    bad, good = request((PAD,)), asked(1)[0]
    first, second, third = decode_in_parallel(
        engines([ScriptedRunner(), ScriptedRunner()]), [good, bad, good]
    )
    assert first == third == [echo(good.source_ids)]
    assert isinstance(second, InputError)


@pytest.mark.parametrize("broken", [0, 1])
def test_a_failure_of_one_ends_all_and_leaves_them_usable(broken: int) -> None:
    runners = [ScriptedRunner(max_rows=1), ScriptedRunner(max_rows=1)]
    runners[broken].broken = ("advance", 5)
    both = engines(runners)
    with pytest.raises(RuntimeError, match="out of luck"):
        decode_in_parallel(both, asked(25))
    assert all(engine.is_idle for engine in both)
    runners[broken].broken = None
    assert len(decode_in_parallel(both, asked(5))) == 5


def test_whoever_watches_can_break_it_off() -> None:
    def give_up(_: int) -> None:
        raise KeyboardInterrupt

    both = engines([ScriptedRunner(max_rows=1), ScriptedRunner(max_rows=1)])
    with pytest.raises(KeyboardInterrupt):
        decode_in_parallel(both, asked(10), give_up)
    assert all(engine.is_idle for engine in both)
