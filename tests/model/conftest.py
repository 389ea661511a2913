"""Shared by tests of the core: the native library, in every form that this machine can run."""

import shutil
from pathlib import Path

import pytest

from model.native.binding import Library
from model.native.build import VARIANTS
from tests.model.native_library import native_library


@pytest.fixture(params=VARIANTS)
def library(request: pytest.FixtureRequest) -> Library:
    """The native library for each instruction set in turn."""
    return native_library(request.param)


@pytest.fixture
def folder(tiny_checkpoint: Path, tmp_path: Path) -> Path:
    """A copy of `tiny_checkpoint` that a test may write into."""
    return shutil.copytree(tiny_checkpoint, tmp_path / "copy")


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves pictures empty, because making them takes seconds."""

    def touch(path: Path, *_: object, **__: object) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        return path

    for write in ("_write", "_write_picture"):
        monkeypatch.setattr(f"model.training.report.pictures.{write}", touch)
