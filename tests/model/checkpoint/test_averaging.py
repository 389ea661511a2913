"""`dragoman average`: the mean of weights, and which ones have none."""

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from model.checkpoint.editing import average_checkpoints
from model.checkpoint.folder import Checkpoint, load_checkpoint, save_checkpoint
from model.cli.main import main
from model.errors import CheckpointError
from tests.embedded import ROOT


def save(folder: Path, checkpoint: Checkpoint, weights: dict[str, torch.Tensor]) -> Path:
    save_checkpoint(
        folder,
        config=checkpoint.config,
        weights=weights,
        card=replace(checkpoint.card, version="9"),
        tokenizer_folder=checkpoint.folder,
        provenance={"steps": 3, **dict.fromkeys(("scores", "evaluations", "tuning", "golden"), "told")},
    )
    return folder


def test_each_weight_is_the_mean_and_what_was_said_of_other_weights_is_gone(
    tiny_checkpoint: Path, tmp_path: Path
) -> None:
    first = load_checkpoint(tiny_checkpoint)
    generator = torch.Generator().manual_seed(1)
    other = {
        name: weight + torch.randn(weight.shape, generator=generator)
        for name, weight in first.state_dict().items()
    }
    second = save(tmp_path / "second", first, other)
    result = CliRunner().invoke(
        main, ["average", str(second), str(tiny_checkpoint), "-o", str(tmp_path / "mean")]
    )
    assert result.exit_code == 0, result.output
    mean = load_checkpoint(tmp_path / "mean")
    for name, weight in mean.state_dict().items():
        torch.testing.assert_close(weight, (first.state_dict()[name] + other[name]) / 2)
    assert (mean.card.name, mean.card.version) == (first.card.name, "9")
    assert mean.provenance["averaged"] == [
        {"name": each.card.name, "version": each.card.version, "checksum": each.checksum}
        for each in (load_checkpoint(second), first)
    ]
    assert mean.provenance["steps"] == 3
    assert not {"scores", "evaluations", "tuning", "golden"} & mean.provenance.keys()


def test_networks_of_other_shapes_have_no_mean(tiny_checkpoint: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(
        main, ["average", str(tiny_checkpoint), str(ROOT / "checkpoints"), "-o", str(tmp_path / "mean")]
    )
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert "checkpoints/everyday: `source_vocab_size` must be" in result.stderr
    assert not (tmp_path / "mean").exists()


def test_other_dropout_is_no_other_network(tiny_checkpoint: Path, tmp_path: Path) -> None:
    first = load_checkpoint(tiny_checkpoint)
    config = replace(first.config, residual_dropout=0.25)
    second = save(tmp_path / "second", replace(first, config=config), first.state_dict())
    average_checkpoints([first, load_checkpoint(second)], tmp_path / "mean")
    assert load_checkpoint(tmp_path / "mean").config == first.config


def test_what_differs_is_named_with_both_values(tiny_checkpoint: Path, tmp_path: Path) -> None:
    first = load_checkpoint(tiny_checkpoint)
    second = save(
        tmp_path / "second",
        replace(first, config=replace(first.config, activation="gelu")),
        first.state_dict(),
    )
    message = f"second: `activation` must be 'relu', as in {tiny_checkpoint}, but is 'gelu' instead"
    with pytest.raises(CheckpointError, match=re.escape(message)):
        average_checkpoints([first, load_checkpoint(second)], tmp_path / "mean")
    assert not (tmp_path / "mean").exists()


def test_other_words_have_no_mean(tiny_checkpoint: Path, tmp_path: Path) -> None:
    other = shutil.copytree(tiny_checkpoint, tmp_path / "other")
    checkpoint = load_checkpoint(other)
    settings = replace(checkpoint.tokenizer.settings, lowercase=not checkpoint.tokenizer.settings.lowercase)
    checkpoint.tokenizer.settings = settings
    with pytest.raises(CheckpointError, match="must have the vocabulary of"):
        average_checkpoints([load_checkpoint(tiny_checkpoint), checkpoint], tmp_path / "mean")


def test_one_is_no_mean(tiny_checkpoint: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["average", str(tiny_checkpoint), "-o", str(tmp_path / "mean")])
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "must be two or more, but is 1 instead" in result.stderr
