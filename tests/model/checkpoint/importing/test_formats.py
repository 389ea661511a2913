"""A path that holds another framework's model is named as such wherever a checkpoint is expected."""

import shutil
import struct
from pathlib import Path

import pytest
from click.testing import CliRunner

from model.checkpoint.folder import load_checkpoint
from model.checkpoint.importing.formats import FORMATS, recognise
from model.checkpoint.importing.importer import import_model
from model.checkpoint.manifest import served_folders
from model.cli import main
from model.errors import CheckpointError, ConfigError
from tests.model.checkpoint.importing.refusals import refused


@pytest.fixture(params=["hugging-face", "ctranslate2", "marian"])
def foreign(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder with just enough of a model to be recognised."""
    folder = tmp_path / request.param
    folder.mkdir()
    if request.param == "hugging-face":
        (folder / "config.json").write_text('{"model_type": "marian"}')
    elif request.param == "ctranslate2":
        (folder / "model.bin").write_bytes((6).to_bytes(4, "little"))
        (folder / "config.json").write_text("{}")
        (folder / "shared_vocabulary.json").write_text("[]")
    else:
        header = struct.pack("<6Q", 1, 1, 10, 0x0404, 1, 100)
        (folder / "model.enpt.intgemm.alphas.bin").write_bytes(header)
        (folder / "vocab.enpt.spm").write_bytes(b"")
    return folder


def test_every_command_names_format_and_remedy(foreign: Path) -> None:
    found = recognise(foreign)
    assert found is not None
    assert found.name == foreign.name
    advice = f"{foreign} is {found.title}: convert it with `dragoman import {foreign} -o FOLDER`"
    for command in (["inspect"], ["translate", "--checkpoint"]):
        result = CliRunner().invoke(main, [*command, str(foreign)], input="hello\n")
        assert result.exit_code == 1
        assert result.stderr == f"dragoman: {advice}\n"
    with pytest.raises(CheckpointError) as raised:
        load_checkpoint(foreign)
    assert str(raised.value) == advice
    if not (foreign / "config.json").exists():
        with pytest.raises(ConfigError, match=f"which `dragoman import` makes of {found.title}"):
            served_folders([foreign])


@pytest.mark.parametrize(("name", "missing"), [("argos", "metadata.json"), ("hugging-face", "config.json")])
def test_a_folder_of_another_format_than_the_named_one(tmp_path: Path, name: str, missing: str) -> None:
    title = next(each.title for each in FORMATS if each.name == name)
    (folder := tmp_path / "model").mkdir()
    refused(folder, f"{folder} cannot be read as {title}: {missing} is missing", format_name=name)


def test_a_damaged_file_is_named(foreign: Path, tmp_path: Path) -> None:
    damaged = foreign / {"hugging-face": "config.json", "ctranslate2": "model.bin"}.get(
        foreign.name, "model.enpt.intgemm.alphas.bin"
    )
    damaged.write_bytes(b"{")
    with pytest.raises(CheckpointError, match=str(damaged)):
        import_model(foreign, tmp_path / "output")
    damaged.rename(foreign / "renamed.old")
    with pytest.raises(CheckpointError, match=r"renamed\.old|config\.json"):
        import_model(foreign, tmp_path / "output")


def test_an_unknown_path_is_told_what_can_be_imported(tmp_path: Path, tiny_checkpoint: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "model.onnx").write_text("hello")
    message = refused(folder, "(it holds model.onnx)", "for ONNX files, import the PyTorch model")
    assert all(f"{each.title} ({each.files})" in message for each in FORMATS)
    refused(tmp_path / "missing", "does not exist")
    refused(shutil.copytree(tiny_checkpoint, tmp_path / "own"), "own is a checkpoint of Dragoman")
    (tmp_path / "cut.argosmodel").write_bytes(b"PK")
    refused(tmp_path / "cut.argosmodel", "cut.argosmodel is not a readable zip")


def test_a_path_beside_or_above_a_model_is_told_the_models(foreign: Path) -> None:
    (foreign / "notes.txt").write_text("hello")
    refused(foreign.parent, f"{foreign.parent} is not a model itself: import {foreign}")
    refused(foreign / "notes.txt", f"notes.txt is not a model itself: import {foreign}")
