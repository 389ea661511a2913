"""Every engine works before the first client comes, and one that does not is named."""

import pytest

from app.lifecycle.model_set import warm_up
from app.main import create_app
from app.settings import Settings
from model.errors import CheckpointError, DecodingError
from tests.app.double import DoubleBackend, DoubleEngine

TWO = (("one", (("en", "fr"),)), ("two", (("fr", "en"),)))


def test_each_workers_engine_of_each_checkpoint_translates() -> None:
    backend = DoubleBackend(*TWO, workers=2)
    warm_up(backend)
    assert len(backend.engines) == 4
    assert all(engine.sizes and engine.is_idle for engine in backend.engines.values())


def test_an_engine_that_cannot_translate_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DoubleEngine, "_result", lambda *_: DecodingError("not a number"))
    with pytest.raises(CheckpointError, match="checkpoint one cannot be served: not a number"):
        warm_up(DoubleBackend(*TWO))


@pytest.mark.anyio
async def test_it_is_not_ready_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DoubleEngine, "_result", lambda *_: DecodingError("not a number"))
    app = create_app(Settings(_env_file=None), DoubleBackend())
    async with app.router.lifespan_context(app):
        assert isinstance(app.state.context.lifecycle.failure, CheckpointError)
