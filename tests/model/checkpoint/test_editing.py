"""Checkpoints made from others: edited in place, averaged, deepened."""

import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result

from model.checkpoint.editing import average_checkpoints, deepen_checkpoint, edited_checkpoint, replace_card
from model.checkpoint.folder import Checkpoint, load_checkpoint, save_checkpoint
from model.checkpoint.manifest import record_evaluation
from model.checkpoint.shortlist import Shortlist
from model.cli.main import main
from model.errors import CheckpointError
from tests.embedded import ROOT

OUTPUT_KEYS = {"scores", "evaluations", "tuning", "golden"}
SOURCE_NK = torch.tensor([[4, 17, 29, 11, 3], [5, 40, 3, 0, 0]])
TARGET_NQ = torch.tensor([[2, 9, 30], [2, 12, 7]])


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, list(map(str, arguments)))


@pytest.fixture
def first(tiny_checkpoint: Path) -> Checkpoint:
    return load_checkpoint(tiny_checkpoint)


@pytest.fixture
def folder(folder: Path) -> Path:
    record_evaluation(folder, "test", {"bleu": 1.0})
    return folder


def save(
    folder: Path, checkpoint: Checkpoint, weights: dict[str, torch.Tensor] | None = None, **config: object
) -> Checkpoint:
    save_checkpoint(
        folder,
        config=replace(checkpoint.config, **config),  # type: ignore[arg-type]
        weights=weights or checkpoint.state_dict(),
        card=replace(checkpoint.card, version="9"),
        tokenizer_folder=checkpoint.folder,
        provenance={"steps": 3, **dict.fromkeys(OUTPUT_KEYS, "told")},
    )
    return load_checkpoint(folder)


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_a_new_card_changes_only_config_and_checksum(folder: Path) -> None:
    (folder / "notes").mkdir()
    (folder / "notes" / "mine.txt").write_text("mine")
    (folder / ".config.json.writing").write_text("left behind")
    before = load_checkpoint(folder)
    replace_card(folder, replace(before.card, version="2"), {"why": "because"})
    after = load_checkpoint(folder)
    assert (after.card.version, before.card.version) == ("2", "1")
    assert after.config == before.config
    assert after.checksum != before.checksum
    assert (after.provenance["why"], after.provenance["evaluations"]) == ("because", {"test": {"bleu": 1.0}})
    old, new = before.provenance["files"], after.provenance["files"]
    assert isinstance(old, dict)
    assert isinstance(new, dict)
    assert old.keys() == new.keys()
    assert {name for name in old if old[name] != new[name]} == {"config.json"}
    assert (folder / "notes" / "mine.txt").read_text() == "mine"
    assert (folder / ".config.json.writing").read_text() == "left behind"


def test_an_edit_that_fails_leaves_the_checkpoint_unchanged(folder: Path) -> None:
    before = content(folder)
    with suppress(RuntimeError), edited_checkpoint(folder, {}) as temporary:
        (temporary / "config.json").write_text("{}")
        raise RuntimeError
    assert content(folder) == before
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_a_broken_checkpoint_is_not_edited(folder: Path, tmp_path: Path) -> None:
    (folder / "tokenizer.model").write_bytes(b"damaged")
    before = content(folder)
    with pytest.raises(CheckpointError, match=r"tokenizer\.model is corrupt"), edited_checkpoint(folder, {}):
        pass
    assert content(folder) == before
    with pytest.raises(CheckpointError, match="is missing"), edited_checkpoint(tmp_path, {}):
        pass


def test_each_weight_is_the_mean_and_the_output_keys_are_gone(first: Checkpoint, tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(1)
    weights = first.state_dict()
    other = {
        name: weight + torch.randn(weight.shape, generator=generator) for name, weight in weights.items()
    }
    second = save(tmp_path / "second", first, other, residual_dropout=0.25)
    result = run("average", second.folder, first.folder, "-o", tmp_path / "mean")
    assert result.exit_code == 0, result.output
    mean = load_checkpoint(tmp_path / "mean")
    for name, weight in mean.state_dict().items():
        torch.testing.assert_close(weight, (weights[name] + other[name]) / 2)
    assert mean.card == second.card
    assert mean.provenance["averaged"] == [
        {"name": each.card.name, "version": each.card.version, "checksum": each.checksum}
        for each in (second, first)
    ]
    assert mean.provenance["steps"] == 3
    assert not OUTPUT_KEYS & mean.provenance.keys()


def test_int8_checkpoints_stay_int8(first: Checkpoint, tmp_path: Path) -> None:
    """What is copied keeps its integers; a mean is rounded again."""
    assert run("average", first.folder, "--storage", "int8", "-o", tmp_path / "int8").exit_code == 0
    stored = load_checkpoint(tmp_path / "int8")
    average_checkpoints([stored, first], tmp_path / "mean")
    deepen_checkpoint(stored, tmp_path / "deep", num_encoder_layers=4, num_decoder_layers=2)
    mean, deep = load_checkpoint(tmp_path / "mean").weights, load_checkpoint(tmp_path / "deep").weights
    assert mean.dtypes == stored.weights.dtypes
    assert set(mean.dtypes.values()) == set(deep.dtypes.values()) == {"float32", "int8"}
    for name in stored.weights:
        expected = (stored.weights[name].floats() + first.weights[name].floats()) / 2
        assert np.allclose(mean[name].floats(), expected, atol=float(np.abs(expected).max()) / 250)
        copied = name.replace("encoder.layers.1", "encoder.layers.3").replace(".layers.0", ".layers.1")
        assert np.array_equal(deep[copied].values, stored.weights[name].values)


def test_a_checkpoint_stored_in_another_type_keeps_shortlist_and_self_test(
    first: Checkpoint, tmp_path: Path
) -> None:
    offsets = np.zeros(first.config.source_vocab_size + 1, np.int32)
    everything = Shortlist(np.arange(5, dtype=np.int32), offsets, np.zeros(0, np.int32))
    origin = replace(save(tmp_path / "origin", first), shortlist=everything)
    average_checkpoints([origin], tmp_path / "stored", "bfloat16")
    stored = load_checkpoint(tmp_path / "stored")
    assert stored.shortlist is not None
    assert stored.provenance["golden"] == "told"
    assert not (OUTPUT_KEYS - {"golden"}) & stored.provenance.keys()
    assert stored.provenance["averaged"] == [{"name": "tiny", "version": "9", "checksum": origin.checksum}]
    for name, tensor in first.state_dict().items():
        assert torch.equal(stored.weights[name].torch(), tensor.bfloat16())


def test_checkpoints_that_do_not_match_have_no_mean(first: Checkpoint, tmp_path: Path) -> None:
    gelu = save(tmp_path / "second", first, activation="gelu")
    message = f"second: `activation` must be 'relu', as in {first.folder}, but is 'gelu' instead"
    with pytest.raises(CheckpointError, match=re.escape(message)):
        average_checkpoints([first, gelu], tmp_path / "mean")
    other = load_checkpoint(first.folder)
    other.tokenizer.settings = replace(other.tokenizer.settings, lowercase=True)
    with pytest.raises(CheckpointError, match="must have the vocabulary of"):
        average_checkpoints([first, other], tmp_path / "mean")
    assert not (tmp_path / "mean").exists()
    other.tokenizer.settings = replace(first.tokenizer.settings, space_after_marks=True)
    average_checkpoints([first, other], tmp_path / "mean")


def test_a_deeper_network_gives_the_same_output(first: Checkpoint, tmp_path: Path) -> None:
    origin = save(tmp_path / "origin", first)
    result = run("grow", origin.folder, "--encoder-layers", 5, "--decoder-layers", 3, "-o", tmp_path / "deep")
    assert result.exit_code == 0, result.output
    deep = load_checkpoint(tmp_path / "deep")
    assert deep.card == origin.card
    assert deep.provenance["grown"] == {"name": "tiny", "version": "9", "checksum": origin.checksum}
    assert deep.provenance["steps"] == 3
    assert not OUTPUT_KEYS & deep.provenance.keys()
    before, after = first.network(), deep.network()
    assert (after.config.num_encoder_layers, after.config.num_decoder_layers) == (5, 3)
    with torch.no_grad():
        torch.testing.assert_close(after(SOURCE_NK, TARGET_NQ), before(SOURCE_NK, TARGET_NQ))
        aligned = [
            network.forward_with_attention(SOURCE_NK, TARGET_NQ)[1].cross[-1] for network in (after, before)
        ]
    torch.testing.assert_close(*aligned)


def test_new_layers_lie_between_the_old_ones_and_can_learn(first: Checkpoint, tmp_path: Path) -> None:
    deepen_checkpoint(first, tmp_path, num_encoder_layers=4, num_decoder_layers=1)
    old, network = first.network(), load_checkpoint(tmp_path).network()
    for place, layer in enumerate(network.encoder.layers):
        below = old.encoder.layers[place // 2]
        assert torch.equal(layer.feed_forward.input.weight, below.feed_forward.input.weight)
        assert bool(layer.feed_forward.output.weight.any()) is (place % 2 == 1)
    network(SOURCE_NK, TARGET_NQ).square().mean().backward()
    assert all(layer.feed_forward.output.weight.grad.any() for layer in network.encoder.layers)


@pytest.mark.parametrize(
    ("config", "encoder_layers", "message"),
    [
        ({"num_encoder_layers": 0}, 2, "`num_encoder_layers` must be 0, as there are none to copy, but is 2"),
        ({"norm_position": "post"}, 4, "must be pre-norm to grow, but is post-norm"),
        ({"decoder_memory": "ssru"}, 4, "must have self-attention in its decoder"),
    ],
)
def test_a_network_that_cannot_be_deepened_is_refused(
    first: Checkpoint, tmp_path: Path, config: dict[str, object], encoder_layers: int, message: str
) -> None:
    """In a post-norm network, norm(x + 0) is not x."""
    other = replace(first, config=replace(first.config, **config))  # type: ignore[arg-type]
    with pytest.raises(CheckpointError, match=message):
        deepen_checkpoint(other, tmp_path / "deep", num_encoder_layers=encoder_layers, num_decoder_layers=2)


@pytest.mark.parametrize(
    ("command", "status", "message"),
    [
        (["average", "{tiny}"], 2, "must be two or more, or one with --storage, but is 1 instead"),
        (["average", "{tiny}", f"{ROOT}/checkpoints"], 1, "everyday: `source_vocab_size` must be"),
        (["grow", "{tiny}", "--encoder-layers", "1"], 1, "`num_encoder_layers` must be 2 or more, but is 1"),
        (["grow", "{tiny}"], 1, "must be more than 2 or 1"),
    ],
)
def test_commands_refuse_in_one_line(
    tiny_checkpoint: Path, tmp_path: Path, command: list[str], status: int, message: str
) -> None:
    result = run(*(part.format(tiny=tiny_checkpoint) for part in command), "-o", tmp_path / "out")
    assert (result.exit_code, result.stderr.count("\n")) == (status, 1)
    assert message in result.stderr
    assert not (tmp_path / "out").exists()
