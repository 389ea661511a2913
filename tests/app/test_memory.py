"""The garbage of the service is freed, and collected a few objects at a time."""

import gc
import weakref

from app.memory import limit_collections, reclaim_memory


def test_reference_cycles_are_freed() -> None:
    class Cycle:
        def __init__(self) -> None:
            self.itself = self

    cycle = Cycle()
    seen = weakref.ref(cycle)
    del cycle
    reclaim_memory()
    assert seen() is None


def test_no_collection_of_new_objects_looks_at_many() -> None:
    before = gc.get_threshold()
    reclaim_memory()
    limit_collections()
    numbers: list[int] = []

    def note(phase: str, about: dict[str, int]) -> None:
        generations = range(about["generation"] + 1)
        if phase == "start" and about["generation"] < 2:
            numbers.append(sum(len(gc.get_objects(each)) for each in generations))

    gc.callbacks.append(note)
    try:
        kept = [[number] for number in range(200_000)]
    finally:
        gc.callbacks.remove(note)
        gc.set_threshold(*before)
    assert len(kept) == 200_000
    assert len(numbers) > 10
    assert max(numbers) < 50_000
