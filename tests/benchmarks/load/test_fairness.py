"""Clients of very different appetites in one real process: no client waits for all requests of another."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks.load.generator import Load, run
from benchmarks.load.target import clients_of, scrape
from benchmarks.load.texts import TEXTS
from tests.app.remote import Live, body_of, running, wait_for

REQUESTS = 60


@pytest.fixture(scope="module")
def hurry(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """While this file exists, steps of the slow service take no time."""
    return tmp_path_factory.mktemp("hurry") / "hurry"


@pytest.fixture(scope="module")
def slow(hurry: Path) -> Iterator[Live]:
    """A service that takes some seconds for a thousand sentences."""
    with running(DOUBLE_SECONDS="0.15", DOUBLE_HURRY=str(hurry)) as live:
        yield live


@contextmanager
def asked_by_another(live: Live, texts: Sequence[str], hurry: Path) -> Iterator[None]:
    """Another client has some sixty requests of these texts in flight, and most of their sentences wait."""
    stream = Load(
        client=clients_of(live.url, 2)[1],
        bodies=[body_of(texts).decode()],
        rate=100 * REQUESTS,
        seconds=0.01,
    )
    with ThreadPoolExecutor() as pool:
        sending = pool.submit(run, stream)
        wait_for(lambda: waiting(live) >= 2 * REQUESTS)
        yield
        hurry.touch()
        seen = sending.result()
        hurry.unlink()
    assert {sample.status for sample in seen.samples} == {200}
    assert len(seen.samples) > REQUESTS / 2


def waiting(live: Live) -> float:
    return scrape(live.url)["dragoman_queue_depth"]


def test_a_modest_client_is_answered_before_a_greedy_one_has_all_it_wants(slow: Live, hurry: Path) -> None:
    with asked_by_another(slow, TEXTS["en"][:6], hurry):
        assert slow.translate()[0] == 200
        assert waiting(slow) > 0


def test_a_long_text_is_answered_while_short_ones_keep_waiting(slow: Live, hurry: Path) -> None:
    with asked_by_another(slow, ["one", "two", "three"] * 6, hurry):
        assert slow.translate(" ".join(TEXTS["en"]))[0] == 200
        assert waiting(slow) > 0
