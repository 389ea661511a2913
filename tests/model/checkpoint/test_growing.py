"""`dragoman grow`: deeper, and at first the same."""

import dataclasses
import shutil
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from model.checkpoint.editing import deepen_checkpoint
from model.checkpoint.folder import Checkpoint, load_checkpoint, save_checkpoint
from model.cli.main import main
from model.errors import CheckpointError
from model.network.transformer import Transformer

SOURCE_NK = torch.tensor([[4, 17, 29, 11, 3], [5, 40, 3, 0, 0]])
TARGET_NQ = torch.tensor([[2, 9, 30], [2, 12, 7]])


def with_config(checkpoint: Checkpoint, folder: Path, **changes: str) -> Checkpoint:
    config = dataclasses.replace(checkpoint.config, **changes)
    save_checkpoint(
        folder,
        config=config,
        weights=Transformer(config).state_dict(),
        card=checkpoint.card,
        tokenizer_folder=checkpoint.folder,
        provenance={},
    )
    return load_checkpoint(folder)


def test_a_deeper_network_says_the_same(tiny_checkpoint: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(
        main,
        ["grow", str(tiny_checkpoint), "--encoder-layers", "5", "--decoder-layers", "3", "-o", str(tmp_path)],
    )
    assert result.exit_code == 0, result.output
    before, after = load_checkpoint(tiny_checkpoint).network(), load_checkpoint(tmp_path).network()
    assert (after.config.num_encoder_layers, after.config.num_decoder_layers) == (5, 3)
    with torch.no_grad():
        torch.testing.assert_close(after(SOURCE_NK, TARGET_NQ), before(SOURCE_NK, TARGET_NQ))
        aligned = [
            network.forward_with_attention(SOURCE_NK, TARGET_NQ)[1].cross[-1] for network in (after, before)
        ]
    torch.testing.assert_close(*aligned)


def test_provenance_names_what_has_grown_and_says_nothing_of_answers(
    tiny_checkpoint: Path, tmp_path: Path
) -> None:
    answers = {"scores", "evaluations", "tuning", "golden"}
    folder = shutil.copytree(tiny_checkpoint, tmp_path / "origin")
    checkpoint = load_checkpoint(folder)
    save_checkpoint(
        folder,
        config=checkpoint.config,
        weights=checkpoint.state_dict(),
        card=checkpoint.card,
        tokenizer_folder=tiny_checkpoint,
        provenance={"steps": 120, **dict.fromkeys(answers, "told")},
    )
    origin = load_checkpoint(folder)
    deepen_checkpoint(origin, tmp_path / "grown", num_encoder_layers=2, num_decoder_layers=2)
    grown = load_checkpoint(tmp_path / "grown")
    assert answers <= origin.provenance.keys()
    assert not answers & grown.provenance.keys()
    assert grown.card == origin.card
    assert grown.provenance["grown"] == {"name": "tiny", "version": "1", "checksum": origin.checksum}
    assert grown.provenance["steps"] == origin.provenance["steps"]
    assert grown.checksum != origin.checksum


def test_layers_lie_between_those_that_there_were_and_can_learn(
    tiny_checkpoint: Path, tmp_path: Path
) -> None:
    deepen_checkpoint(load_checkpoint(tiny_checkpoint), tmp_path, num_encoder_layers=4, num_decoder_layers=1)
    old, network = load_checkpoint(tiny_checkpoint).network(), load_checkpoint(tmp_path).network()
    for place, layer in enumerate(network.encoder.layers):
        below = old.encoder.layers[place // 2]
        assert torch.equal(layer.feed_forward.input.weight, below.feed_forward.input.weight)
        assert bool(layer.feed_forward.output.weight.any()) is (place % 2 == 1)
    network(SOURCE_NK, TARGET_NQ).square().mean().backward()
    assert all(layer.feed_forward.output.weight.grad.any() for layer in network.encoder.layers)


def test_a_network_does_not_shrink(tiny_checkpoint: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(
        main, ["grow", str(tiny_checkpoint), "--encoder-layers", "1", "-o", str(tmp_path / "small")]
    )
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert "`num_encoder_layers` must be 2 or more, but is 1" in result.stderr
    assert not (tmp_path / "small").exists()


def test_growing_by_nothing_is_refused(tiny_checkpoint: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["grow", str(tiny_checkpoint), "-o", str(tmp_path / "same")])
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert "must be more than 2 or 1" in result.stderr
    assert not (tmp_path / "same").exists()


def test_a_stack_that_is_not_there_does_not_grow(tiny_checkpoint: Path, tmp_path: Path) -> None:
    origin = load_checkpoint(tiny_checkpoint)
    lacking = dataclasses.replace(origin, config=dataclasses.replace(origin.config, num_encoder_layers=0))
    with pytest.raises(
        CheckpointError, match="`num_encoder_layers` must be 0, as there are none to copy, but is 2"
    ):
        deepen_checkpoint(lacking, tmp_path / "grown", num_encoder_layers=2, num_decoder_layers=2)


def test_a_post_norm_network_cannot_grow(tiny_checkpoint: Path, tmp_path: Path) -> None:
    """There norm(x + 0) is not x."""
    post = with_config(load_checkpoint(tiny_checkpoint), tmp_path / "post", norm_position="post")
    with pytest.raises(CheckpointError, match="must be pre-norm to grow, but is post-norm"):
        deepen_checkpoint(post, tmp_path / "grown", num_encoder_layers=4, num_decoder_layers=1)
