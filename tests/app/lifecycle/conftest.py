"""A context of default settings."""

import pytest

from app.lifecycle.context import Context
from app.settings import Settings


@pytest.fixture
def context() -> Context:
    return Context(Settings(_env_file=None))
