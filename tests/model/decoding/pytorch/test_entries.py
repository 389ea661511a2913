import pytest

from model.decoding.pytorch.kv_allocator import FreeEntries
from model.errors import DecodingError


def test_no_entry_is_lent_twice_until_it_comes_back() -> None:
    free = FreeEntries(2, 10)
    first, second = free.take(4), free.take(6)
    assert sorted(first + second) == list(range(2, 12))
    assert len(free) == 0
    free.give_back(first)
    assert sorted(free.take(4)) == sorted(first)


def test_more_than_there_is_is_refused_and_nothing_is_taken() -> None:
    free = FreeEntries(0, 3)
    with pytest.raises(DecodingError, match="room for 3 more, not 4"):
        free.take(4)
    assert free.take(0) == []
    assert len(free) == 3
