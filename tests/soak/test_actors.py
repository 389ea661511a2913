"""Clients of every kind, against a service that does nothing wrong and one that is not there."""

import threading
from random import Random

import pytest

from benchmarks.load.target import Accounts
from tests.app.remote import Live
from tests.soak.actors import OFFENCES, Diary, Visitor, over_and_over


def visitor(port: int, diary: Diary) -> Visitor:
    return Visitor(port=port, diary=diary, draw=Random(3))


def test_good_clients_find_nothing_wrong(live: Live) -> None:
    diary = Diary()
    for _ in range(6):
        visitor(live.port, diary).translate()
        visitor(live.port, diary).watch()
    assert (diary.statuses, diary.faults) == ({200: 12}, [])


@pytest.mark.parametrize("offence", OFFENCES, ids=str)
def test_each_offence_gets_the_status_that_it_deserves(live: Live, offence: tuple[bytes, int]) -> None:
    diary = Diary()
    visitor(live.port, diary).commit(*offence)
    assert (diary.statuses, diary.faults) == ({offence[1]: 1}, [])


def test_who_leaves_is_accounted_for(live: Live) -> None:
    before = Accounts.of(live.url)
    person = visitor(live.port, Diary())
    for _ in range(10):
        person.leave()
    after = Accounts.of(live.url)
    assert after.unaccounted == 0
    assert after.accepted > before.accepted + 1


def test_where_nobody_is_that_is_noted() -> None:
    diary, is_over = Diary(), threading.Event()
    thread = threading.Thread(target=over_and_over, args=(visitor(1, diary).translate, diary, 0.01, is_over))
    thread.start()
    while not diary.faults:
        is_over.wait(0.01)
    is_over.set()
    thread.join()
    assert "translate: ConnectionRefusedError" in diary.faults[0]
