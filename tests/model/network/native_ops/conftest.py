"""The native operators of each instruction set that this processor runs."""

import pytest
import torch

from model.native.build import VARIANTS
from model.native.operators import Operators
from model.network.native_ops import loading
from tests.model.native_library import native_library


@pytest.fixture(autouse=True)
def _same_numbers() -> None:
    """Whichever tests were before: what is counted here may be off by so many deviations, but not by luck."""
    torch.manual_seed(3)


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
