"""The active models from loading to the end; test_reloading tests how they are replaced."""

import pytest

from app.backend import Backend
from app.errors import DrainingError, NotReadyError
from app.lifecycle.context import Context
from app.lifecycle.phase import Phase
from model.errors import CheckpointError
from tests.app.double import DoubleBackend
from tests.app.lifecycle.conftest import active_models_of

pytestmark = pytest.mark.anyio


async def test_it_serves_from_loading_to_the_end(context: Context, backend: DoubleBackend) -> None:
    models = active_models_of(lambda _: backend, context)
    with pytest.raises(NotReadyError):
        _ = context.service
    await models.start()
    context.lifecycle.require_ready()
    assert context.service.catalogue.models == tuple(backend.models())
    await models.stop()
    with pytest.raises(DrainingError):
        context.lifecycle.require_ready()


@pytest.mark.parametrize(
    ("fault", "lines"), [(CheckpointError("cut short"), 0), (ZeroDivisionError("a fault of ours"), 1)]
)
async def test_a_failure_is_left_for_the_server_and_only_faults_of_ours_are_logged(
    context: Context, caplog: pytest.LogCaptureFixture, fault: Exception, lines: int
) -> None:
    def load(_current: Backend | None) -> Backend:
        raise fault

    models = active_models_of(load, context)
    await models.start()
    assert (context.lifecycle.phase, context.lifecycle.failure) == (Phase.FAILED, fault)
    assert [record.message for record in caplog.records] == ["the model could not be loaded"] * lines
    await models.stop()


async def test_a_process_that_was_told_to_end_while_it_loaded_never_becomes_ready(
    context: Context, backend: DoubleBackend
) -> None:
    def load(_current: Backend | None) -> Backend:
        context.lifecycle.drain()
        return backend

    models = active_models_of(load, context)
    await models.start()
    assert context.lifecycle.phase is Phase.DRAINING
    await models.stop()
