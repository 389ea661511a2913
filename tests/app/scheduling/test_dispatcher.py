"""Which worker takes which sentence when, with workers that the test plays step by step."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from app.scheduling.backlog import Backlog, SentenceJob
from app.scheduling.dispatcher import Dispatcher, WorkerSlot
from tests.app.scheduling.test_backlog import job


@dataclass
class Player:
    """A worker without a thread, that can take so many tokens; an idle one takes anything."""

    dispatcher: Dispatcher
    room: int
    interrupts: int = 0
    running: list[SentenceJob] = field(default_factory=list)
    taken: list[SentenceJob] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.slot: WorkerSlot = self.dispatcher.add_worker(self._interrupt)

    def _interrupt(self) -> None:
        self.interrupts += 1

    @property
    def has_something_to_do(self) -> bool:
        return self.slot.is_woken or self.slot.load > 0

    def fits(self, job: SentenceJob) -> bool:
        used = sum(each.cost for each in self.running)
        return not self.running or used + len(job.request.source_ids) <= self.room

    def look(self) -> None:
        """What a worker does between two calls of its engine; without work its thread would sleep."""
        assert self.has_something_to_do
        withdrawn, models = self.dispatcher.wait(self.slot, {each.model for each in self.running}) or ((), ())
        for each in withdrawn:
            # The sentence may have ended in the step in which its client left.
            if each in self.running:
                self.running.remove(each)
        for model in models:
            while (found := self.dispatcher.take(self.slot, model, self.fits)) is not None:
                assert self.fits(found)
                self.running.append(found)
                self.taken.append(found)

    def finish(self, count: int) -> None:
        done, self.running = self.running[:count], self.running[count:]
        self.dispatcher.finish(done)


def players(count: int, room: int = 100) -> tuple[Dispatcher, list[Player]]:
    dispatcher = Dispatcher(Backlog(10**9, fair_rows=2))
    return dispatcher, [Player(dispatcher, room) for _ in range(count)]


def put(dispatcher: Dispatcher, jobs: list[SentenceJob]) -> None:
    """Queue sentences as the requests of one iteration of the event loop are."""
    assert dispatcher.put(jobs) == 0
    dispatcher.wake()


def run_until_quiet(everyone: list[Player]) -> None:
    """Let all workers that were woken look, until nothing changes any more."""
    for _ in range(1000):
        for player in everyone:
            if player.slot.is_woken:
                player.look()
        if not any(player.slot.is_woken for player in everyone):
            return
    raise AssertionError("the workers wake each other for ever")


def test_one_sentence_wakes_one_idle_worker() -> None:
    dispatcher, everyone = players(3)
    put(dispatcher, [job(5)])
    assert [player.slot.is_woken for player in everyone] == [True, False, False]
    run_until_quiet(everyone)
    assert [len(player.running) for player in everyone] == [1, 0, 0]


def test_the_next_sentence_goes_to_the_lesser_load() -> None:
    dispatcher, (first, second) = players(2)
    put(dispatcher, [job(30), job(10)])
    run_until_quiet([first, second])
    heavy, light = sorted((first, second), key=lambda player: -player.slot.load)
    put(dispatcher, [job(5)])
    assert (heavy.slot.is_woken, light.slot.is_woken) == (False, True)
    heavy.look()
    assert len(heavy.running) == 1
    light.look()
    assert [each.cost for each in light.running] == [10, 5]


def test_no_sentence_overtakes_one_that_finds_no_room() -> None:
    dispatcher, (alone,) = players(1)
    put(dispatcher, [job(60)])
    alone.look()
    large, small = job(50), job(10)
    put(dispatcher, [large, small])
    alone.look()
    assert len(alone.running) == 1
    alone.finish(1)
    alone.look()
    assert alone.running == [large, small]


def test_only_a_withdrawal_interrupts_a_step() -> None:
    dispatcher, (alone,) = players(1)
    leaving = job(6)
    put(dispatcher, [leaving, job(6)])
    alone.look()
    put(dispatcher, [job(5)])
    assert alone.interrupts == 0
    dispatcher.withdraw([leaving])
    assert alone.interrupts == 1


def test_a_worker_that_declined_is_not_woken_by_later_sentences() -> None:
    dispatcher, (alone,) = players(1)
    put(dispatcher, [job(60)])
    alone.look()
    put(dispatcher, [job(50)])
    alone.look()
    put(dispatcher, [job(1) for _ in range(20)])
    assert not alone.slot.is_woken


def test_room_at_one_worker_is_found_when_the_other_declines() -> None:
    dispatcher, (small, large) = players(2)
    small.room, large.room = 10, 100
    put(dispatcher, [job(5), job(40)])
    run_until_quiet([small, large])
    put(dispatcher, [job(30)])
    run_until_quiet([small, large])
    assert sum(len(player.running) for player in (small, large)) == 3


def test_withdrawn_sentences_make_room() -> None:
    dispatcher, (alone,) = players(1)
    runs, waits, next_one = job(60), job(50), job(40)
    put(dispatcher, [runs])
    alone.look()
    put(dispatcher, [waits, next_one])
    alone.look()
    assert not alone.slot.is_woken
    dispatcher.withdraw([waits])
    alone.look()
    assert alone.running == [runs, next_one]
    dispatcher.withdraw([runs])
    alone.look()
    assert alone.running == [next_one]
    dispatcher.withdraw([runs, waits])
    assert not alone.slot.is_woken


def test_sentences_are_queued_all_or_none() -> None:
    dispatcher = Dispatcher(Backlog(10, fair_rows=8))
    alone = Player(dispatcher, 100)
    put(dispatcher, [job(4)])
    assert dispatcher.put([job(4, client="b"), job(5, client="b")]) == 3
    alone.look()
    assert len(alone.running) == 1


def test_a_checkpoint_that_is_full_does_not_block_another() -> None:
    dispatcher, (alone,) = players(1)
    put(dispatcher, [job(60)])
    alone.look()
    other = job(10, model="b")
    alone_fits: Callable[[SentenceJob], bool] = alone.fits
    alone.fits = lambda job: len(job.request.source_ids) < 50 and alone_fits(job)  # type: ignore[method-assign]
    put(dispatcher, [job(50, model="a"), other])
    alone.look()
    assert other in alone.running


ACTIONS = st.one_of(
    st.tuples(
        st.just("put"),
        st.tuples(
            st.sampled_from("xyz"),
            st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 80)), min_size=1, max_size=6),
        ),
    ),
    st.tuples(st.just("look"), st.integers(0, 3)),
    st.tuples(st.just("finish"), st.tuples(st.integers(0, 3), st.integers(1, 3))),
    st.tuples(st.just("withdraw"), st.integers(0, 10**6)),
)


@given(st.integers(1, 4), st.lists(ACTIONS, max_size=60))
def test_no_sentence_is_lost_or_overtaken_and_no_worker_sleeps_while_there_is_work(
    count: int, actions: list[tuple[str, object]]
) -> None:
    dispatcher, everyone = players(count)
    arrived: list[SentenceJob] = []
    withdrawn: set[SentenceJob] = set()
    order: list[SentenceJob] = []
    for player in everyone:
        player.taken = order
    for action in actions:
        match action:
            case ("put", (client, shapes)):
                now = time.monotonic()
                jobs = [job(length, model=model, client=client, arrival=now) for model, length in shapes]
                arrived += jobs
                put(dispatcher, jobs)
            case ("withdraw", int(number)) if arrived:
                withdrawn.add(arrived[number % len(arrived)])
                dispatcher.withdraw([arrived[number % len(arrived)]])
            case ("look", int(number)) if everyone[number % count].has_something_to_do:
                everyone[number % count].look()
            case ("finish", (int(number), int(how_many))):
                everyone[number % count].finish(how_many)
    for _ in range(10 * len(arrived) + 10):
        for player in everyone:
            if player.has_something_to_do:
                player.look()
                player.finish(1)
    assert all(not player.running and player.slot.load == 0 for player in everyone)
    assert [each for each in arrived if each not in withdrawn and each not in order] == []
    assert len(order) == len(set(order))
    for model, client in product("ab", "xyz"):
        own = [each for each in order if (each.model, each.client) == (model, client)]
        places = [arrived.index(each) for each in own]
        assert places == sorted(places)


@given(st.integers(2, 4), st.lists(st.integers(1, 40), min_size=1, max_size=80))
def test_loads_differ_by_no_more_than_a_sentence(count: int, lengths: list[int]) -> None:
    dispatcher, everyone = players(count, room=10**9)
    put(dispatcher, [job(length, deadline=float("inf")) for length in lengths])
    run_until_quiet(everyone)
    loads = [player.slot.load for player in everyone]
    assert sum(loads) == sum(lengths)
    assert max(loads) - min(loads) <= max(lengths)
