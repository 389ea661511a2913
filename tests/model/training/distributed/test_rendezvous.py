"""How processes of one start find each other in a store that remembers those before them."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from torch.distributed import HashStore, PrefixStore

from model.training.distributed import process_group
from model.training.distributed.process_group import rendezvous_prefix


def meet(store: HashStore, size: int) -> set[str]:
    """The names that so many processes agree on."""
    with ThreadPoolExecutor(size) as threads:
        return set(threads.map(lambda rank: rendezvous_prefix(store, rank, size), range(size)))


def test_all_of_one_start_have_the_same_name_and_no_other_start_has_it() -> None:
    store = HashStore()
    names = [meet(store, 3), meet(store, 3), meet(store, 2), meet(store, 3)]
    assert [len(found) for found in names] == [1, 1, 1, 1]
    assert len(set.union(*names)) == 4


def test_what_died_while_it_asked_is_not_waited_for() -> None:
    store = HashStore()
    store.set("question/1", "asked before torchrun replaced it")
    assert len(meet(store, 2)) == 1


def test_who_does_not_come_is_waited_for_in_vain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_group, "_RENDEZVOUS_TIMEOUT", timedelta(seconds=0.2))
    store = HashStore()
    store.set("question/2", "asked before")
    with pytest.raises(RuntimeError, match="2 of 3 have not come"):
        rendezvous_prefix(PrefixStore("run", store), 0, 3)
