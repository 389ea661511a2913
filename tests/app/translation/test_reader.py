"""Reading a request: languages, checkpoints, options, sentences and limits; threads for long texts."""

import asyncio
import threading
from contextvars import ContextVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.translation.catalogue import Catalogue
from app.translation.reader import Reader, TextThreads
from app.translation.requests import Text, TextJob
from model.errors import ConfigError, InputError, TextTooLongError, UnsupportedLanguageError
from model.text.formats.markup_syntax import HTML
from tests.app.conftest import until
from tests.app.double import DoubleBackend, request_of

BACKEND = DoubleBackend(("de-en", (("de", "en"),)), ("en-fr", (("en", "fr"), ("fr", "en"))))
CATALOGUE = Catalogue(BACKEND.models())


def read(*texts: str, max_tokens: float = float("inf"), **fields: object) -> list[Text]:
    reader = Reader(CATALOGUE, max_tokens)
    planned = reader.plan(request_of(*texts, **fields))
    reader.read([job for text in planned for job in text.jobs if job.remaining])
    return planned


def only_job(text: Text) -> TextJob:
    (job,) = text.jobs
    return job


def sentences(text: Text) -> list[str]:
    return [
        BACKEND.tokenizer.decode(each.source_ids[:-1]).lower() for job in text.jobs for each in job.requests
    ]


def test_sentences_are_found_in_each_text() -> None:
    first, second = read("One two. Three!\nfour", " \n")
    assert sentences(first) == ["one two.", "three!", "four"]
    assert (sentences(second), only_job(second).field) == ([], "q[1]")
    (whole,) = read("One two. Three!\nfour", splitting="none")
    assert sentences(whole) == ["one two. three! four"]


def test_markup_is_not_translated() -> None:
    (text,) = read("<p>One <b>two</b></p>", markup=HTML)
    assert sentences(text) == ["one two"]


def test_a_text_in_the_target_language_has_no_hop() -> None:
    (text,) = read("One two.", source="fr")
    assert (only_job(text).remaining, text.answer().text) == ((), "One two.")
    (detected,) = read("Où est la gare, s'il vous plaît ?", source=None)
    assert detected.detection is not None
    assert (detected.detection.language, only_job(detected).remaining) == ("fr", ())


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
    first, last = only_job(text).options
    assert (first.min_length, last.min_length) == (0, 2)
    assert (first.max_length, last.max_length) == (None, 9)
    assert (first.no_repeat_ngram_size, last.no_repeat_ngram_size) == (2, 2)
    assert (first.num_hypotheses, last.num_hypotheses) == (1, 2)


def test_a_request_over_the_limit_is_not_read_to_its_end() -> None:
    with pytest.raises(TextTooLongError, match="MAX_QUEUED_TOKENS: 8, at most 7"):
        read("one two three", "four five six", "seven", max_tokens=7)


@pytest.mark.parametrize(
    ("wish", "fault"),
    [
        ({"target": "xx"}, UnsupportedLanguageError),
        ({"source": "xx"}, UnsupportedLanguageError),
        ({"source": "de", "model": "en-fr"}, UnsupportedLanguageError),
        ({"model": "other"}, InputError),
        ({"decoding": {"strategy": "greedy", "beam_size": 3, "min_length": 99}}, ConfigError),
    ],
)
def test_a_request_that_cannot_be_served_is_rejected(wish: dict[str, object], fault: type[Exception]) -> None:
    with pytest.raises(fault):
        read("one", **wish)  # type: ignore[arg-type]


def test_a_sentence_that_is_too_long_is_divided() -> None:
    short, long = read("short", "word " * 50)
    assert (len(sentences(short)), len(sentences(long))) == (1, 2)


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
