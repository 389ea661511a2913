"""The application as a whole: it answers, and it lets go of what it has."""

import gc
from types import SimpleNamespace

import httpx
import pytest

from app.background import reclaim_memory
from app.lifecycle.active_models import ActiveModels
from app.main import create_app
from app.settings import Settings
from tests.app.conftest import until
from tests.app.double import DoubleBackend

pytestmark = pytest.mark.anyio


async def test_a_look_that_fails_is_logged_and_made_up_for_and_everything_is_closed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    backend, let_go = DoubleBackend(), []
    monkeypatch.setattr(backend, "close", lambda: let_go.append("engines"))
    monkeypatch.setattr(ActiveModels, "look", _fail)
    app = create_app(Settings(_env_file=None, watch_seconds=0.01), connect=lambda: backend)
    app.state.context.tracing = SimpleNamespace(close=lambda: let_go.append("traces"))
    async with app.router.lifespan_context(app):
        await until(lambda: len(caplog.records) > 1)
        assert set(caplog.messages) == {"looking for changed checkpoints failed"}
    assert let_go == ["engines", "traces"]


async def test_traces_are_written_although_the_engines_cannot_be_let_go_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    let_go = []
    monkeypatch.setattr(ActiveModels, "stop", _fail)
    app = create_app(Settings(_env_file=None), DoubleBackend())
    app.state.context.tracing = SimpleNamespace(close=lambda: let_go.append("traces"))
    with pytest.raises(ZeroDivisionError):
        async with app.router.lifespan_context(app):
            pass
    assert let_go == ["traces"]


async def test_no_collection_of_new_objects_looks_at_many(client: httpx.AsyncClient) -> None:
    reclaim_memory()
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
    assert len(kept) == 200_000
    assert len(numbers) > 10
    assert max(numbers) < 50_000


async def _fail(*_: object, **__: object) -> None:
    raise ZeroDivisionError
