"""A context of default settings, and what belongs to it."""

import pytest

from app.backend import Backend
from app.lifecycle.active_models import ActiveModels, Load
from app.lifecycle.context import Context
from app.lifecycle.model_set import ModelSet
from app.settings import Settings


@pytest.fixture
def context() -> Context:
    return Context.of(Settings(_env_file=None))


def model_set_of(backend: Backend, context: Context) -> ModelSet:
    return ModelSet(
        backend,
        settings=context.settings,
        metrics=context.metrics,
        lifecycle=context.lifecycle,
        watchdog=context.watchdog,
    )


def active_models_of(load: Load, context: Context) -> ActiveModels:
    return ActiveModels(
        load,
        settings=context.settings,
        metrics=context.metrics,
        lifecycle=context.lifecycle,
        watchdog=context.watchdog,
        serve=context.serve,
    )
