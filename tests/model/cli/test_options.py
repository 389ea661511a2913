"""Options that commands share: which folders `--output` replaces, and progress without a terminal."""

import shutil
import sys
from pathlib import Path

import pytest

from model.checkpoint.folder import load_checkpoint
from model.cli.options import progress_bar
from tests.model.cli.conftest import Run


@pytest.fixture
def checkpoint(tiny_checkpoint: Path, tmp_path: Path) -> Path:
    return shutil.copytree(tiny_checkpoint, tmp_path / "runs/v/checkpoints/best")


def commands(checkpoint: Path, other: Path) -> list[list[str | Path]]:
    return [
        ["average", checkpoint, other],
        ["average", other, checkpoint],
        ["grow", checkpoint, "--encoder-layers", "3"],
        ["export", checkpoint, "--format", "ctranslate2"],
    ]


def test_other_files_inputs_and_what_is_around_them_stay(
    run: Run, tiny_checkpoint: Path, checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.txt").write_text("data")
    (tmp_path / "runs/v/config.json").write_text('{"corpora": []}')
    (tmp_path / "near").symlink_to(checkpoint)
    monkeypatch.chdir(precious)
    before = sorted(tmp_path.rglob("*"))
    places = [precious, Path("."), tmp_path, tmp_path / "runs/v", checkpoint, tmp_path / "near"]
    for command in commands(checkpoint, tiny_checkpoint):
        for place in places:
            result = run(*command, "-o", place)
            assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
            assert result.stderr.startswith("dragoman: --output must be ")
    assert sorted(tmp_path.rglob("*")) == before


def test_an_empty_folder_and_another_checkpoint_are_replaced(
    run: Run, tiny_checkpoint: Path, checkpoint: Path, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    for place in (tmp_path / "empty", checkpoint):
        assert run("grow", tiny_checkpoint, "--encoder-layers", "3", "-o", place).exit_code == 0
        assert load_checkpoint(place).config.num_encoder_layers == 3


def test_an_export_is_replaced(run: Run, tiny_checkpoint: Path, tmp_path: Path) -> None:
    export = ("export", tiny_checkpoint, "--format", "ctranslate2", "-o", tmp_path / "out")
    for quantization in ("float32", "float32", "int8"):
        assert run(*export, "--quantization", quantization).exit_code == 0


@pytest.mark.parametrize("wanted", [None, True, False])
def test_without_standard_error_nothing_is_shown(
    monkeypatch: pytest.MonkeyPatch, wanted: bool | None
) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    with progress_bar("lines", wanted=wanted) as bar:
        bar.update(1)
    assert bar.disable
