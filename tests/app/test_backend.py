"""Loading until a model may serve: each engine translates first."""

import pytest

from app.backend import LoadedModel, Model, load_verified
from app.main import create_app
from app.settings import Settings
from model.errors import CheckpointError, DecodingError
from tests.app.double import DoubleBackend, DoubleEngine

pytestmark = pytest.mark.anyio
TWO = (("one", (("en", "fr"),)), ("two", (("fr", "en"),)))


def load(backend: DoubleBackend) -> list[LoadedModel]:
    return [load_verified(backend, model) for model in backend.list_models()]


async def test_each_workers_engine_of_each_checkpoint_translates() -> None:
    backend = DoubleBackend(*TWO, workers=2)
    load(backend)
    assert len(backend.engines) == 4
    assert all(engine.sizes and engine.is_idle for engine in backend.engines.values())


@pytest.mark.parametrize("fault", [CheckpointError, ZeroDivisionError])
async def test_engines_that_cannot_translate_are_named_and_closed(
    monkeypatch: pytest.MonkeyPatch, fault: type[Exception]
) -> None:
    def fail(*_: object) -> object:
        if fault is CheckpointError:
            return DecodingError("not a number")
        raise fault

    monkeypatch.setattr(DoubleEngine, "_result", fail)
    backend = DoubleBackend(*TWO, workers=2)
    with pytest.raises(fault) as failure:
        load(backend)
    if fault is CheckpointError:
        assert str(failure.value) == "checkpoint one cannot be served: not a number"
    assert backend.closings == 2


async def test_a_process_whose_engines_cannot_translate_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DoubleEngine, "_result", lambda *_: DecodingError("not a number"))
    app = create_app(Settings(_env_file=None), DoubleBackend())
    async with app.router.lifespan_context(app):
        assert isinstance(app.state.context.lifecycle.failure, CheckpointError)


def test_a_model_is_not_used_without_its_memory() -> None:
    (model,) = DoubleBackend().list_models()
    with pytest.raises(RuntimeError, match="model tiny is used without a lease"):
        _ = model.tokenizer
    assert isinstance(model, Model)
