"""A checkpoint folder comes back as it was written, and every kind of damage is refused by name."""

import json
import os
import pickle
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from model.checkpoint.folder import load_checkpoint, save_checkpoint
from model.checkpoint.manifest import write_provenance
from model.errors import CheckpointError
from model.network.transformer import Transformer
from model.text.tokenizer import Tokenizer
from tests.model.test_whole import largest_file
from tests.tiny import tiny_card, tiny_config, train_tokenizer


@pytest.fixture
def folder(tiny_checkpoint: Path, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    return shutil.copytree(tiny_checkpoint, tmp_path / "copy")


def resign(folder: Path) -> None:
    """Make the checksums agree with the files again, so that only later checks can object."""
    write_provenance(folder, {})


def edit_config(folder: Path, section: str, **values: object) -> None:
    content = json.loads((folder / "config.json").read_text())
    content[section] |= values
    (folder / "config.json").write_text(json.dumps(content))
    resign(folder)


def edit_weights(folder: Path, edit: Callable[[dict[str, torch.Tensor]], None]) -> None:
    weights = load_file(folder / "model.safetensors")
    edit(weights)
    save_file(weights, folder / "model.safetensors")
    resign(folder)


def test_what_is_written_is_read_back(tiny_tokenizer_folder: Path, tmp_path: Path) -> None:
    config = tiny_config(Tokenizer.load(tiny_tokenizer_folder))
    network = Transformer(config).eval()
    card = tiny_card(name="round-trip")
    save_checkpoint(
        tmp_path / "model",
        config=config,
        weights=network.state_dict(),
        card=card,
        tokenizer_folder=tiny_tokenizer_folder,
        provenance={"steps": 7},
    )
    checkpoint = load_checkpoint(tmp_path / "model")
    assert (checkpoint.config, checkpoint.card) == (config, card)
    assert checkpoint.provenance["steps"] == 7
    source, target = torch.tensor([[4, 20, 30, 3]]), torch.tensor([[2, 40]])
    assert torch.equal(checkpoint.network()(source, target), network(source, target))
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize("tie", ["none", "decoder", "all"])
def test_tied_tensors_are_stored_once_and_stay_tied(
    tie: str, tiny_tokenizer_folder: Path, tmp_path: Path
) -> None:
    config = tiny_config(Tokenizer.load(tiny_tokenizer_folder), tie=tie)
    network = Transformer(config)
    save_checkpoint(
        tmp_path / "model",
        config=config,
        weights=network.state_dict(),
        card=tiny_card(),
        tokenizer_folder=tiny_tokenizer_folder,
        provenance={},
    )
    checkpoint = load_checkpoint(tmp_path / "model")
    assert checkpoint.num_parameters == network.num_parameters()
    loaded = checkpoint.network()
    assert loaded.num_parameters() == network.num_parameters()
    assert (loaded.output.weight is loaded.target_embedding.tokens.weight) == (tie != "none")


def test_a_network_does_not_change_with_its_files(folder: Path) -> None:
    network = load_checkpoint(folder).network()
    before = network.output.weight.clone()
    with (folder / "model.safetensors").open("r+b") as file:
        file.write(b"\0" * (folder / "model.safetensors").stat().st_size)
    assert torch.equal(network.output.weight, before)


def test_saving_replaces_a_folder_and_changes_its_checksum(folder: Path) -> None:
    checkpoint = load_checkpoint(folder)
    (folder / "left-over.txt").write_text("from before")
    save_checkpoint(
        folder,
        config=checkpoint.config,
        weights=checkpoint.state_dict(),
        card=tiny_card(version="2"),
        tokenizer_folder=folder,
        provenance={},
        storage_dtype=torch.bfloat16,
    )
    replaced = load_checkpoint(folder)
    assert replaced.card.version == "2"
    assert replaced.checksum != checkpoint.checksum
    assert {tensor.dtype for tensor in replaced.weights.values()} == {"bfloat16"}
    assert not (folder / "left-over.txt").exists()
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


@pytest.mark.parametrize("name", ["config.json", "provenance.json", "tokenizer.json", "model.safetensors"])
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_file_is_not_opened(folder: Path, name: str, make: Callable[[Path], None]) -> None:
    (folder / name).unlink()
    make(folder / name)
    with pytest.raises(CheckpointError, match=f"is incomplete: {name} is no file$"):
        load_checkpoint(folder)


def test_a_full_disk_leaves_the_good_checkpoint(folder: Path) -> None:
    checkpoint = load_checkpoint(folder)
    with (
        largest_file(10_000),
        pytest.raises(CheckpointError, match=r"cannot write .*File too large"),
    ):
        save_checkpoint(
            folder,
            config=checkpoint.config,
            weights=checkpoint.state_dict(),
            card=tiny_card(version="2"),
            tokenizer_folder=folder,
            provenance={},
        )
    assert load_checkpoint(folder).checksum == checkpoint.checksum
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_the_checksum_is_of_the_content(folder: Path, tiny_checkpoint: Path) -> None:
    assert load_checkpoint(folder).checksum == load_checkpoint(tiny_checkpoint).checksum


def test_what_happens_to_the_files_later_reaches_nobody(folder: Path) -> None:
    """Were they mapped, cutting them short would kill the process."""
    expected = load_checkpoint(folder).network().state_dict()
    checkpoint = load_checkpoint(folder)
    (folder / "model.safetensors").write_bytes(b"")
    for name, weight in checkpoint.network().state_dict().items():
        assert torch.equal(weight, expected[name])


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json", "provenance.json"])
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(CheckpointError, match=f"incomplete: {name} is missing"):
        load_checkpoint(folder)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.model"])
def test_one_flipped_bit_is_seen(folder: Path, name: str) -> None:
    content = bytearray((folder / name).read_bytes())
    digit = content.rindex(b"3")  # stays JSON where it is JSON
    content[digit] ^= 1
    (folder / name).write_bytes(content)
    with pytest.raises(CheckpointError, match=f"{name} is corrupt"):
        load_checkpoint(folder)


def test_a_truncated_file_is_seen(folder: Path) -> None:
    content = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(content[:-1])
    with pytest.raises(CheckpointError, match=r"model\.safetensors is corrupt: it has \d+ bytes instead of"):
        load_checkpoint(folder)


def test_a_zero_filled_half_is_seen(folder: Path) -> None:
    content = (folder / "model.safetensors").read_bytes()
    half = len(content) // 2
    (folder / "model.safetensors").write_bytes(content[:half] + bytes(len(content) - half))
    with pytest.raises(CheckpointError, match=r"model\.safetensors is corrupt"):
        load_checkpoint(folder)


def test_a_pickle_is_never_read(folder: Path, tmp_path: Path) -> None:
    trace = tmp_path / "executed"
    payload = pickle.dumps(_Payload(trace))
    (folder / "model.safetensors").write_bytes(payload)
    resign(folder)
    with pytest.raises(CheckpointError, match=r"model\.safetensors is not a readable safetensors file"):
        load_checkpoint(folder)
    (folder / "pytorch_model.bin").write_bytes(payload)
    (folder / "config.json").unlink()
    with pytest.raises(CheckpointError, match=r"pytorch_model\.bin looks like a pickle, which is never read"):
        load_checkpoint(folder)
    assert not trace.exists()


class _Payload:
    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.trace,)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_not_finite_is_named(folder: Path, value: float) -> None:
    name = "encoder.layers.1.feed_forward.input.weight"
    edit_weights(folder, lambda weights: weights[name][0].fill_(value))
    with pytest.raises(CheckpointError, match=f"tensor '{name}' holds NaN or infinity"):
        load_checkpoint(folder)


def test_a_tensor_of_another_shape_is_named(folder: Path) -> None:
    edit_config(folder, "architecture", ffn_dim=128)
    message = (
        r"'encoder\.layers\.0\.feed_forward\.input\.weight' must have shape \[128, 32\], but has \[64, 32\]"
    )
    with pytest.raises(CheckpointError, match=message):
        load_checkpoint(folder)


def test_a_missing_and_an_unknown_tensor_are_named(folder: Path) -> None:
    edit_weights(folder, lambda weights: weights.update(novel=torch.ones(1)))
    with pytest.raises(CheckpointError, match="tensor 'novel' is not part of this architecture"):
        load_checkpoint(folder)
    edit_weights(folder, lambda weights: weights.pop("decoder.norm.weight"))
    with pytest.raises(CheckpointError, match=r"tensor 'decoder\.norm\.weight' is missing"):
        load_checkpoint(folder)


def test_integers_are_no_weights(folder: Path) -> None:
    edit_weights(
        folder, lambda weights: weights.update({"decoder.norm.weight": torch.ones(32, dtype=torch.int8)})
    )
    with pytest.raises(CheckpointError, match=r"'decoder\.norm\.weight' must be floating point"):
        load_checkpoint(folder)


def test_a_foreign_tokenizer_is_refused(folder: Path, tmp_path: Path) -> None:
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    train_tokenizer(foreign, [("Other words entirely", "Tout autre chose")], vocab_size=290)
    shutil.copyfile(foreign / "tokenizer.model", folder / "tokenizer.model")
    resign(folder)
    with pytest.raises(CheckpointError, match=r"its source_vocab_size is \d+, but config\.json says 309"):
        load_checkpoint(folder)


@pytest.mark.parametrize("version", [0, 2, "1", None, True])
def test_an_unknown_format_version_is_refused(folder: Path, version: object) -> None:
    content = json.loads((folder / "config.json").read_text()) | {"format_version": version}
    (folder / "config.json").write_text(json.dumps(content))
    with pytest.raises(CheckpointError, match=f"format_version {version!r}; this release reads version 1"):
        load_checkpoint(folder)


@pytest.mark.parametrize(
    ("section", "values", "message"),
    [
        ("architecture", {"num_heads": 5}, "`num_heads` must be a divisor of model_dim"),
        ("architecture", {"novel": 1}, "`novel` must be one of"),
        ("card", {"pairs": []}, "`pairs` must be one or more pairs"),
        ("card", {"pairs": [7]}, "`pairs` must be a list of pairs"),
        ("card", {"name": "a b"}, "`name` must be at most 64 letters"),
        ("card", {"decoding": {"beam_size": 0}}, "`beam_size` must be an integer between"),
    ],
)
def test_a_value_that_cannot_work_is_named(
    folder: Path, section: str, values: dict[str, object], message: str
) -> None:
    edit_config(folder, section, **values)
    with pytest.raises(CheckpointError, match=message):
        load_checkpoint(folder)


def test_an_unknown_part_is_named(folder: Path) -> None:
    content = json.loads((folder / "config.json").read_text()) | {"quantisation": {}}
    (folder / "config.json").write_text(json.dumps(content))
    resign(folder)
    message = r"config\.json: `quantisation` must be one of format_version, card, architecture"
    with pytest.raises(CheckpointError, match=message):
        load_checkpoint(folder)


@pytest.mark.parametrize("content", [b"", b"[]", b"\xff", b"[" * 100_000, b'{"format_version": 1'])
def test_broken_json_is_named(folder: Path, content: bytes) -> None:
    (folder / "config.json").write_bytes(content)
    with pytest.raises(CheckpointError, match=r"config\.json") as caught:
        load_checkpoint(folder)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["../config.json", "/etc/hostname", "..", "", "a\0", "\ud800"])
def test_no_file_outside_the_folder_is_opened(folder: Path, name: str) -> None:
    provenance = json.loads((folder / "provenance.json").read_text())
    provenance["files"][name] = {"sha256": "0" * 64, "bytes": 1}
    (folder / "provenance.json").write_text(json.dumps(provenance))
    with pytest.raises(CheckpointError, match=r"the record of file .* is malformed"):
        load_checkpoint(folder)


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.model", "tokenizer.json"])
def test_a_file_that_nothing_vouches_for_is_not_used(folder: Path, name: str) -> None:
    provenance = json.loads((folder / "provenance.json").read_text())
    del provenance["files"][name]
    (folder / "provenance.json").write_text(json.dumps(provenance))
    with pytest.raises(CheckpointError, match=rf"{re.escape(name)} is not listed in provenance\.json"):
        load_checkpoint(folder)


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="nowhere does not exist"):
        load_checkpoint(tmp_path / "nowhere")
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match="file is not a folder"):
        load_checkpoint(tmp_path / "file")
