"""What only knows itself is freed."""

import weakref

from app.lifecycle.model_set import reclaim_memory


class _Circle:
    def __init__(self) -> None:
        self.itself = self


def test_circles_are_freed() -> None:
    circle = _Circle()
    seen = weakref.ref(circle)
    del circle
    reclaim_memory()
    assert seen() is None
