"""The stages of a request, and how long each takes."""

import asyncio

import pytest

from app.telemetry.timings import (
    Timings,
    current_timings,
    reset_current_timings,
    server_timing,
    set_current_timings,
)


def test_a_repeated_stage_is_reported_once_with_all_its_time() -> None:
    timings = Timings()
    for began in (1.0, 2.0):
        timings.record_decoding(began, began + 0.25, began + 0.75)
    assert timings.seconds() == {"queue": 0.5, "decode": 1.0}
    assert server_timing(timings) == b"queue;dur=500.000, decode;dur=1000.000"


def test_parallel_spans_count_once() -> None:
    timings = Timings()
    timings.record_decoding(1.0, 2.0, 5.0)
    timings.record_decoding(1.0, 3.0, 4.0)
    timings.record_decoding(4.5, 4.5, 6.0)
    assert timings.seconds() == {"queue": 2.0, "decode": 4.0}


def test_sentences_that_never_reached_an_engine_only_waited() -> None:
    timings = Timings()
    timings.record_decoding(1.0, None, 3.0)
    assert timings.seconds() == {"queue": 2.0}


@pytest.mark.parametrize(("encoding", "split", "encode"), [(0.5, 1.5, 0.5), (9.0, 0.0, 2.0)])
def test_a_stage_that_is_split_off_never_exceeds_the_whole(
    encoding: float, split: float, encode: float
) -> None:
    timings = Timings()
    timings.record("split", 1.0, 3.0)
    timings.split_off("encode", encoding)
    assert timings.seconds() == {"split": split, "encode": encode}


def test_a_stage_that_fails_counts() -> None:
    timings = Timings()
    with pytest.raises(ValueError, match="no"), timings.during("finish"):
        raise ValueError("no")
    assert list(timings.seconds()) == ["finish"]


def test_two_parts_of_a_stage_in_a_row_are_one_span() -> None:
    timings = Timings()
    timings.record("finish", 1.0, 2.0)
    assert timings.seconds() == {"finish": 1.0}
    with timings.during("finish"):
        pass
    ((began, ended, _),) = timings.spans
    assert (began, timings.seconds()) == (1.0, {"finish": ended - 1.0})


def test_several_pairs_are_mixed() -> None:
    timings = Timings()
    timings.items = 2
    timings.count_tokens("en-fr", 3, 4)
    timings.count_tokens("en-fr", 3, 4)
    assert (timings.sizes()["pair"], timings.sizes()["target_tokens"]) == ("en-fr", 8)
    timings.count_tokens("fr-en", 1, 1)
    assert timings.sizes()["pair"] == "mixed"


def test_tasks_and_threads_find_the_timings_of_their_request() -> None:
    async def request() -> bool:
        timings = Timings()
        token = set_current_timings(timings)
        await asyncio.sleep(0)
        found = [
            current_timings(),
            await asyncio.create_task(_current()),
            await asyncio.to_thread(current_timings),
        ]
        reset_current_timings(token)
        return all(each is timings for each in found) and current_timings() is not timings

    async def requests() -> list[bool]:
        return await asyncio.gather(*(request() for _ in range(3)))

    assert asyncio.run(requests()) == [True] * 3


async def _current() -> Timings:
    return current_timings()
