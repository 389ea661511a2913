"""Reading a request, beyond what HTTP shows: detection, options, long sentences; threads for long texts."""

import asyncio
import threading
from contextvars import ContextVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.translation.catalogue import Catalogue
from app.translation.reader import Reader, TextThreads
from app.translation.requests import Text
from model.errors import UnsupportedLanguageError
from tests.app.conftest import until
from tests.app.double import DoubleBackend, request_of

BACKEND = DoubleBackend(("de-en", (("de", "en"),)), ("en-fr", (("en", "fr"), ("fr", "en"))))
CATALOGUE = Catalogue(BACKEND.models())


def read(*texts: str, max_tokens: float = float("inf"), **fields: object) -> list[Text]:
    reader = Reader(CATALOGUE, max_tokens)
    planned = reader.plan(request_of(*texts, **fields))
    reader.read([job for text in planned for job in text.jobs if job.remaining])
    return planned


def test_detection_prefers_languages_that_can_be_translated() -> None:
    for text, model, language in (("Wo ist der Bahnhof?", None, "de"), ("Tom!", "en-fr", "fr")):
        (found,) = read(text, source=None, target="en", model=model)
        assert found.detection is not None
        assert found.detection.language == language
    with pytest.raises(UnsupportedLanguageError, match=r"`source` must be one of .*, but is 'de'"):
        read("Wo ist der Bahnhof?", source=None, target="en", model="en-fr")


def test_lengths_hold_on_the_last_hop_and_other_options_on_both() -> None:
    wish = {"min_length": 2, "max_length": 9, "no_repeat_ngram_size": 2}
    (text,) = read("eins zwei", source="de", decoding=wish, alternatives=1)
    first, last = text.jobs[0].options
    assert (first.min_length, last.min_length) == (0, 2)
    assert (first.max_length, last.max_length) == (None, 9)
    assert (first.no_repeat_ngram_size, last.no_repeat_ngram_size) == (2, 2)
    assert (first.num_hypotheses, last.num_hypotheses) == (1, 2)


def test_a_sentence_that_is_too_long_is_divided() -> None:
    found = read("short", "word " * 50)
    assert [len(text.jobs[0].requests) for text in found] == [1, 2]


# Threads

LONG = 3_000
CONTEXT: ContextVar[str] = ContextVar("test")


@pytest.mark.anyio
async def test_long_texts_have_a_thread_and_short_ones_none() -> None:
    threads = TextThreads(2)
    assert await threads.run(threading.get_ident, client="a", size=5) == threading.get_ident()
    CONTEXT.set("request 1")
    assert await threads.run(CONTEXT.get, client="a", size=LONG) == "request 1"
    assert await threads.run(threading.get_ident, client="a", size=LONG) != threading.get_ident()
    with pytest.raises(ZeroDivisionError):
        await threads.run(lambda: 1 // 0, client="a", size=LONG)
    await asyncio.sleep(0.01)
    assert threads._permits.free == 2


@pytest.mark.anyio
async def test_a_modest_client_does_not_wait_for_all_work_of_another() -> None:
    threads = TextThreads(1)
    gate, order = threading.Event(), []
    held = asyncio.create_task(threads.run(gate.wait, client="greedy", size=LONG * 10))
    pile = [
        asyncio.create_task(threads.run(lambda: order.append("greedy"), client="greedy", size=LONG * 10))
        for _ in range(20)
    ]
    await asyncio.sleep(0)
    modest = asyncio.create_task(threads.run(lambda: order.append("modest"), client="modest", size=LONG * 10))
    await asyncio.sleep(0)
    gate.set()
    await asyncio.gather(held, modest, *pile)
    assert order.index("modest") <= 1


CALLS = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(1, 9), st.integers(0, 3), st.booleans()), max_size=25
)


@given(st.integers(1, 3), CALLS)
def test_no_thread_is_lost_whoever_is_cancelled(count: int, calls: list[tuple[str, int, int, bool]]) -> None:
    async def play() -> None:
        threads, gate = TextThreads(count), threading.Event()
        tasks = []
        for client, cost, ticks, is_cancelled in calls:
            tasks.append(asyncio.create_task(threads.run(gate.wait, client=client, size=LONG * cost)))
            for _ in range(ticks):
                await asyncio.sleep(0)
            if is_cancelled:
                tasks[len(tasks) // 2].cancel()
        gate.set()
        await asyncio.gather(*tasks, return_exceptions=True)
        await until(lambda: threads._permits.free >= count)
        assert threads._permits.free == count
        assert len(threads._permits._waiting) == 0

    asyncio.run(play())
