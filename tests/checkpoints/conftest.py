"""The embedded checkpoint, loaded once for all tests of it."""

import pytest

from model.translation.translator import Translator
from tests.embedded import EMBEDDED


@pytest.fixture(scope="package")
def translator() -> Translator:
    return Translator.load(EMBEDDED, device="cpu")
