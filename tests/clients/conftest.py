"""Running services, for clients that other people wrote."""

from collections.abc import Iterator

import deepl
import pytest

from tests.app.double import write_keys
from tests.app.remote import Live, running


@pytest.fixture(scope="session")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A service with the keys `sesame` and `mellon`."""
    keys = write_keys(tmp_path_factory.mktemp("keys"), ali="sesame", gimli="mellon")
    with running(DRAGOMAN_API_KEYS_FILE=str(keys)) as service:
        yield service


@pytest.fixture
def once(monkeypatch: pytest.MonkeyPatch) -> None:
    """DeepL's client gives up at the first error, as it lets its users choose, but not for want of time."""
    monkeypatch.setattr(deepl.http_client, "max_network_retries", 0)
    monkeypatch.setattr(deepl.http_client, "min_connection_timeout", 60.0)


def connect(service: Live, key: str = "any") -> deepl.DeepLClient:
    """DeepL's client as it comes, pointed at a service."""
    return deepl.DeepLClient(key, server_url=service.url)
