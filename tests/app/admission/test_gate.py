"""The door: exact whatever happens behind it, never too many inside, always room for one more client."""

import asyncio
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import Bundle as Places
from hypothesis.stateful import RuleBasedStateMachine, consumes, invariant, rule

from app.admission.gate import Admission, Stay
from app.errors import DeadlinePassedError, HouseFullError

ROOM = 20
BYTES = 10_000
FOREVER = float("inf")


class Clock:
    """Moved by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def entered(admission: Admission, client: str) -> bool:
    try:
        admission.enter(client, FOREVER)
    except HouseFullError:
        return False
    return True


def refusal(admission: Admission, client: str | None, size: int = 0) -> HouseFullError | None:
    try:
        with admission.reading(client, size):
            return None
    except HouseFullError as error:
        return error


class House(RuleBasedStateMachine):
    """Clients come and go in any order; a plain count is the model."""

    places = Places("places")

    def __init__(self) -> None:
        super().__init__()
        self.admission = Admission(ROOM, BYTES, Clock())
        self.inside: Counter[str] = Counter()

    @rule(target=places, client=st.sampled_from("abc"))
    def come(self, client: str) -> str | None:
        foreseen = refusal(self.admission, client)
        may = entered(self.admission, client)
        assert may == (foreseen is None)
        self.inside[client] += may
        return client if may else None

    @rule(client=consumes(places))
    def go(self, client: str | None) -> None:
        if client is not None:
            self.admission.leave(client)
            self.inside[client] -= 1

    @rule(client=st.sampled_from("abc"))
    def come_too_late(self, client: str) -> None:
        with pytest.raises((DeadlinePassedError, HouseFullError)):
            self.admission.enter(client, deadline=0.0)

    @invariant()
    def the_count_is_exact(self) -> None:
        assert self.admission.in_house == self.inside.total() <= ROOM
        assert self.admission._places._of_client == +self.inside

    @invariant()
    def there_is_room_for_another_client(self) -> None:
        assert refusal(self.admission, "somebody else") is None
        assert refusal(self.admission, None) is None


TestHouse = House.TestCase


def test_a_lone_client_gets_four_fifths_and_whoever_comes_next_still_gets_in() -> None:
    admission = Admission(ROOM, BYTES)
    assert sum(entered(admission, "greedy") for _ in range(2 * ROOM)) == ROOM * 4 // 5
    assert isinstance(refusal(admission, "greedy"), HouseFullError)
    assert entered(admission, "modest")
    admission.leave("modest")
    admission.leave("greedy")
    assert entered(admission, "greedy")


def test_a_full_house_refuses_everybody() -> None:
    admission = Admission(ROOM, BYTES)
    for client in range(ROOM):
        assert entered(admission, str(client))
    for newcomer in ("0", "new", None):
        assert isinstance(refusal(admission, newcomer), HouseFullError)


def test_a_refusal_tells_when_those_inside_will_have_been_answered() -> None:
    clock = Clock()
    admission = Admission(ROOM, BYTES, clock)
    for _ in range(100):
        admission.enter("a", FOREVER)
        clock.now += 0.5
        admission.leave("a")
        clock.now += 30.0
    for client in range(ROOM):
        admission.enter(str(client), FOREVER)
    refused = refusal(admission, None)
    assert refused is not None
    assert refused.retry_after == pytest.approx(ROOM * 0.5, abs=1), "idle times are no work"


def test_bodies_and_texts_share_their_room_like_places() -> None:
    admission = Admission(ROOM, BYTES)
    with admission.reading("greedy", 5000), admission.reading("greedy", 3000):
        assert isinstance(refusal(admission, "greedy", 1), HouseFullError)
        with pytest.raises(HouseFullError), admission.reading("modest", 2001):
            raise AssertionError
        admission.enter("modest", FOREVER, 2000)
        with pytest.raises(HouseFullError), admission.reading(None, 1):
            raise AssertionError
    admission.leave("modest", 2000)
    with pytest.raises(RuntimeError), admission.reading(None, BYTES):
        raise RuntimeError
    assert admission._bytes.taken == 0
    assert admission._bytes._of_client == {}


def test_coming_too_late_takes_no_place() -> None:
    admission = Admission(ROOM, BYTES, clock := Clock())
    clock.now = 5.0
    with pytest.raises(DeadlinePassedError):
        admission.enter("a", deadline=5.0)
    assert admission.in_house == 0


async def _visit(turn: Stay, ends: asyncio.Event, *, fails: bool) -> None:
    async with turn:
        await ends.wait()
        if fails:
            raise RuntimeError


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(0, 3), st.sampled_from(["cancelled", "fails", "ends"])),
        max_size=2 * ROOM,
    )
)
def test_every_place_is_given_back_however_a_request_ends(
    visits: list[tuple[str, int, str]],
) -> None:
    """Cancelled before it began, while it ran, or when it was over already; failed; ended."""

    async def play() -> None:
        admission = Admission(ROOM, BYTES)
        tasks = []
        for client, ticks, end in visits:
            ends = asyncio.Event()
            turn = admission.turn(client, FOREVER)
            task = asyncio.create_task(_visit(turn, ends, fails=end == "fails"))
            tasks.append(task)
            for _ in range(ticks):
                await asyncio.sleep(0)
            assert admission.in_house <= ROOM
            if end == "cancelled":
                task.cancel()
            elif ticks != 2:
                ends.set()
            else:
                asyncio.get_running_loop().call_later(0.001, ends.set)
        await asyncio.gather(*tasks, return_exceptions=True)
        assert admission.in_house == 0
        assert admission._places._of_client == admission._bytes._of_client == {}

    asyncio.run(play())
