"""Each contestant finds its weights, or a line says why not."""

from pathlib import Path

import pytest

from benchmarks.lineup import CONTESTANTS, line_up
from benchmarks.stable import Stable
from model.errors import ConfigError


def test_contestants_of_one_format_share_a_folder(tiny_checkpoint: Path, tmp_path: Path) -> None:
    stable = Stable(tiny_checkpoint, tmp_path)
    folders = {name: stable.folder_of(CONTESTANTS[name]) for name in CONTESTANTS}
    assert folders["dragoman-torch-int8"] == tiny_checkpoint
    assert folders["ctranslate2-int8"] == tmp_path / "ctranslate2-int8"
    assert folders["hugging-face-float32"] == tmp_path / "pegasus-float32"
    assert stable.left_out(list(CONTESTANTS.values())) == []


def test_what_a_format_cannot_hold_stays_away(
    tiny_checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object) -> None:
        raise ConfigError("positions", "'sinusoidal' for marian", "rotary")

    monkeypatch.setattr("benchmarks.stable.export_checkpoint", refuse)
    stable = Stable(tiny_checkpoint, tmp_path)
    peer = CONTESTANTS["hugging-face-float32"]
    assert stable.folder_of(peer) is None
    (line,) = stable.left_out([peer, CONTESTANTS["dragoman-torch-int8"]])
    assert line.startswith("Left out: hugging-face-float32 (`positions` must be")


def test_ours_comes_first_and_must_be_there() -> None:
    names = [each.name for each in line_up(["ctranslate2-int8", "dragoman-torch-int8"])]
    assert names == ["dragoman-torch-int8", "ctranslate2-int8"]
    with pytest.raises(ConfigError, match="`engine`"):
        line_up(["ctranslate2-int8"])
