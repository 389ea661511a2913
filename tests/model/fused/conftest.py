"""The native operators of each instruction set that this processor runs."""

import pytest

from model.fused import loading
from model.native.build import VARIANTS
from model.native.operators import Operators
from tests.model.native_library import native_library


@pytest.fixture(params=sorted(VARIANTS))
def operators(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Operators:
    """Operators that `operators_for` gives while the test runs."""
    chosen = Operators(native_library(request.param))
    chosen.lend_threads(loading.address_of_threads())
    monkeypatch.setattr(loading, "installed_operators", lambda: chosen)
    return chosen


@pytest.fixture
def no_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where there is no native library."""
    monkeypatch.setattr(loading, "installed_operators", lambda: None)
