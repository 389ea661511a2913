"""The application as a whole: it answers, and it lets go of what it has."""

from types import SimpleNamespace

import httpx
import pytest

from app.lifecycle.active_models import ActiveModels
from app.lifecycle.reloading import Reloader
from app.main import create_app
from app.settings import Settings
from tests.app.conftest import until
from tests.app.double import DoubleBackend

pytestmark = pytest.mark.anyio


async def test_a_text_comes_back_translated(client: httpx.AsyncClient) -> None:
    request = {"q": "where is it?", "source": "en", "target": "fr"}
    response = await client.post("/translate", json=request)
    assert response.status_code == 200
    assert response.json() == {
        "translatedText": "WHERE IS IT?",
        "model": "tiny",
        "model_version": "1+cccccccc",
    }


async def test_a_failed_background_task_is_logged_at_once_and_everything_is_closed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    backend, let_go = DoubleBackend(), []
    monkeypatch.setattr(backend, "close", lambda: let_go.append("engines"))
    monkeypatch.setattr(Reloader, "_wait_for_request", _fail)
    app = create_app(Settings(_env_file=None, watch_seconds=0), connect=lambda: backend)
    app.state.context.tracing = SimpleNamespace(close=lambda: let_go.append("traces"))
    async with app.router.lifespan_context(app):
        await until(lambda: caplog.records)
        assert caplog.messages == ["a background task failed"]
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


async def _fail(_: object) -> None:
    raise ZeroDivisionError
