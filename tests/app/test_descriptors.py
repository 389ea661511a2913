import resource

import pytest

from app import descriptors


@pytest.mark.parametrize(
    ("soft", "hard", "granted", "room"),
    [
        (64, 64, None, 32),
        (1024, 4096, 4096, 3968),
        (1024, resource.RLIM_INFINITY, 65_536, 65_408),
        (200_000, 200_000, None, 199_872),
    ],
)
def test_the_limit_is_raised_and_something_kept_back(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, granted: int | None, room: int
) -> None:
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: asked.append(limits))
    assert descriptors.claim_descriptors() == room
    assert asked == ([] if granted is None else [(granted, hard)])
