"""How much one may take of a shared room."""

from hypothesis import given
from hypothesis import strategies as st

from app.admission.quota import SHARE, excess, fits

ROOM = 1000


def fill(room: int, clients: int) -> list[int]:
    """Everybody takes one at a time, in turn, for as long as anybody may."""
    has = [0] * clients
    grew = True
    while grew:
        grew = False
        for client in range(clients):
            if fits(1, mine=has[client], free=room - sum(has)):
                has[client] += 1
                grew = True
    return has


def test_a_lone_client_gets_most_of_it() -> None:
    assert fill(ROOM, 1) == [800]


def test_greedy_clients_get_the_same_and_leave_some() -> None:
    for clients in (2, 3, 7):
        has = fill(ROOM, clients)
        assert max(has) - min(has) <= SHARE
        assert ROOM / (1 + clients * SHARE) - 2 * SHARE <= ROOM - sum(has) <= ROOM / (1 + clients * SHARE) + 2


def test_who_has_nothing_gets_whatever_is_free() -> None:
    assert fits(ROOM, mine=0, free=ROOM)
    assert fits(1, mine=0, free=1)
    assert not fits(1, mine=0, free=0)
    assert not fits(2, mine=0, free=1)


@given(st.integers(1, 2000), st.integers(0, ROOM), st.integers(0, ROOM))
def test_what_is_too_much_fits_once_the_excess_is_gone(need: int, mine: int, others: int) -> None:
    mine = min(mine, ROOM - others) if others <= ROOM else 0
    free = ROOM - mine - others
    missing = excess(need, mine=mine, free=free)
    assert (missing == 0) == fits(need, mine=mine, free=free)
    if 0 < missing < mine:
        assert fits(need, mine=mine - missing, free=free + missing)
        assert not fits(need, mine=mine - missing + 1, free=free + missing - 1)
