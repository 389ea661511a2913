"""A running service to be put under load."""

from collections.abc import Iterator

import pytest

from tests.app.remote import Live, running


@pytest.fixture(scope="session")
def live() -> Iterator[Live]:
    """With a double backend, in a process of its own."""
    with running() as service:
        yield service
