"""Tests that need the native library: they run where it is built, and say why where it is not."""

import pytest

from model.errors import NativeError
from model.native.library import load_library


def _why_not() -> str:
    try:
        load_library()
    except NativeError as error:
        return str(error)
    return ""


needs_native = pytest.mark.skipif(bool(_why_not()), reason=_why_not())
