"""Changing a checkpoint that is there already."""

import dataclasses
import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from model.checkpoint.editing import edited_checkpoint, replace_card
from model.checkpoint.folder import load_checkpoint
from model.checkpoint.manifest import record_evaluation
from model.errors import CheckpointError


@pytest.fixture
def folder(tiny_checkpoint: Path, tmp_path: Path) -> Path:
    copied = shutil.copytree(tiny_checkpoint, tmp_path / "copy")
    record_evaluation(copied, "test", {"bleu": 1.0})
    return copied


def test_another_card_leaves_network_and_provenance_and_changes_the_checksum(folder: Path) -> None:
    before = load_checkpoint(folder)
    replace_card(folder, dataclasses.replace(before.card, version="2"), {"why": "because"})
    after = load_checkpoint(folder)
    assert (after.card.version, before.card.version) == ("2", "1")
    assert after.config == before.config
    assert after.checksum != before.checksum
    assert (after.provenance["why"], after.provenance["evaluations"]) == ("because", {"test": {"bleu": 1.0}})
    files = before.provenance["files"], after.provenance["files"]
    assert isinstance(files[0], dict)
    assert isinstance(files[1], dict)
    assert {name for name in files[0] if files[0][name] != files[1][name]} == {"config.json"}


def test_a_change_that_fails_leaves_the_checkpoint_as_it_was(folder: Path) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with suppress(RuntimeError), edited_checkpoint(folder, {}) as temporary:
        (temporary / "config.json").write_text("{}")
        raise RuntimeError
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_what_else_lies_in_the_folder_stays_there_unlisted(folder: Path) -> None:
    (folder / "notes").mkdir()
    (folder / "notes" / "mine.txt").write_text("mine")
    (folder / ".config.json.writing").write_text("left behind")
    card = load_checkpoint(folder).card
    replace_card(folder, dataclasses.replace(card, version="2"), {})
    after = load_checkpoint(folder)
    assert after.card.version == "2"
    assert isinstance(after.provenance["files"], dict)
    assert after.provenance["files"].keys().isdisjoint(("notes", ".config.json.writing"))
    assert (folder / "notes" / "mine.txt").read_text() == "mine"
    assert (folder / ".config.json.writing").read_text() == "left behind"


def test_a_damaged_checkpoint_is_refused_and_not_vouched_for(folder: Path) -> None:
    (folder / "tokenizer.model").write_bytes(b"damaged")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(CheckpointError, match=r"tokenizer\.model is corrupt"), edited_checkpoint(folder, {}):
        pass
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_what_is_no_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="is missing"), edited_checkpoint(tmp_path, {}):
        pass
