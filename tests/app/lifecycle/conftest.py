"""A context of default settings, and what belongs to it."""

import pytest

from app.lifecycle.active_models import ActiveModels, Connect
from app.lifecycle.context import Context
from app.settings import Settings


@pytest.fixture
def context() -> Context:
    return Context(Settings(_env_file=None))


def active_models_of(connect: Connect, context: Context) -> ActiveModels:
    return ActiveModels(
        connect,
        settings=context.settings,
        metrics=context.metrics,
        lifecycle=context.lifecycle,
        watchdog=context.watchdog,
        serve=context.serve,
    )
