"""A checkpoint that is given another version."""

from pathlib import Path

from model.checkpoint.folder import load_checkpoint
from tests.soak.versions import copy_checkpoint, give_version


def test_a_copy_with_another_version_is_whole_and_another(tmp_path: Path, tiny_checkpoint: Path) -> None:
    folder = tmp_path / "copy"
    copy_checkpoint(tiny_checkpoint, folder)
    give_version(folder, "7")
    before, after = load_checkpoint(tiny_checkpoint), load_checkpoint(folder)
    assert after.card.version == "7"
    assert after.checksum != before.checksum
