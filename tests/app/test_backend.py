"""Loading until a model may serve: each engine translates first."""

import pytest

from app.backend import LoadedModel, load_verified
from model.errors import CheckpointError, DecodingError
from tests.app.double import DoubleBackend, DoubleEngine

TWO = (("one", (("en", "fr"),)), ("two", (("fr", "en"),)))


def load(backend: DoubleBackend) -> list[LoadedModel]:
    return [load_verified(backend, model) for model in backend.list_models()]


def test_each_workers_engine_of_each_checkpoint_translates() -> None:
    backend = DoubleBackend(*TWO, workers=2)
    load(backend)
    assert len(backend.engines) == 4
    assert all(engine.sizes and engine.is_idle for engine in backend.engines.values())


@pytest.mark.parametrize("fault", [CheckpointError, ZeroDivisionError])
def test_engines_that_cannot_translate_are_named_and_closed(
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


def test_a_model_is_not_used_without_its_memory() -> None:
    (model,) = DoubleBackend().list_models()
    with pytest.raises(RuntimeError, match="model tiny is used without a lease"):
        _ = model.tokenizer
