"""A bar shows where somebody can see it."""

import sys

import pytest

from model.cli.options import progress_bar


@pytest.mark.parametrize("wanted", [None, True, False])
def test_without_standard_error_nothing_is_shown(
    monkeypatch: pytest.MonkeyPatch, wanted: bool | None
) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    with progress_bar("lines", wanted=wanted) as bar:
        bar.update(1)
    assert bar.disable
