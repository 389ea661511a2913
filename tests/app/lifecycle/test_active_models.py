"""What is served, from loading to the end; how another set takes its place is told beside the reloader."""

import pytest

from app.backend import Backend
from app.errors import DrainingError, NotReadyError
from app.lifecycle.active_models import ActiveModels
from app.lifecycle.context import Context
from app.lifecycle.phase import Phase
from app.settings import Settings
from model.errors import CheckpointError
from tests.app.double import DoubleBackend

pytestmark = pytest.mark.anyio


@pytest.fixture
def context() -> Context:
    return Context.of(Settings(_env_file=None))  # type: ignore[call-arg]


async def test_it_serves_from_loading_to_the_end(context: Context, backend: DoubleBackend) -> None:
    running = ActiveModels(context, lambda _: backend)
    with pytest.raises(NotReadyError):
        _ = context.service
    await running.start()
    context.lifecycle.require_ready()
    assert context.service.catalogue.models == tuple(backend.models())
    await running.stop()
    with pytest.raises(DrainingError):
        context.lifecycle.require_ready()


@pytest.mark.parametrize(
    ("fault", "lines"), [(CheckpointError("cut short"), 0), (ZeroDivisionError("a fault of ours"), 1)]
)
async def test_a_failure_is_left_for_the_server_and_only_faults_of_ours_are_logged(
    context: Context, caplog: pytest.LogCaptureFixture, fault: Exception, lines: int
) -> None:
    def load(_lender: Backend | None) -> Backend:
        raise fault

    running = ActiveModels(context, load)
    await running.start()
    assert (context.lifecycle.phase, context.lifecycle.failure) == (Phase.FAILED, fault)
    assert [record.message for record in caplog.records] == ["the model could not be loaded"] * lines
    await running.stop()


async def test_a_process_that_was_told_to_end_while_it_loaded_never_becomes_ready(
    context: Context, backend: DoubleBackend
) -> None:
    def load(_lender: Backend | None) -> Backend:
        context.lifecycle.drain()
        return backend

    running = ActiveModels(context, load)
    await running.start()
    assert context.lifecycle.phase is Phase.DRAINING
    await running.stop()
