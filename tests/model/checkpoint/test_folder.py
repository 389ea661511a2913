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

from model.checkpoint.folder import Checkpoint, load_checkpoint, save_checkpoint
from model.checkpoint.manifest import read_config, write_provenance
from model.checkpoint.weights import StorageType
from model.errors import CheckpointError
from model.network.transformer import Transformer
from model.text.tokenizer import Tokenizer
from tests.model.test_files import largest_file
from tests.tiny import save_network, tiny_card, tiny_config, train_tokenizer


def resign(folder: Path) -> None:
    """Make the checksums agree with the files again, so that only later checks can object."""
    write_provenance(folder, {})


def edit_config(folder: Path, section: str, **values: object) -> None:
    content = json.loads((folder / "config.json").read_text())
    content[section] = content.get(section, {}) | values
    (folder / "config.json").write_text(json.dumps(content))
    resign(folder)


def save_again(folder: Path, checkpoint: Checkpoint, storage: StorageType | None = None) -> None:
    save_checkpoint(
        folder,
        config=checkpoint.config,
        weights=checkpoint.state_dict(),
        card=tiny_card(version="2"),
        tokenizer_folder=folder,
        provenance={},
        storage=storage,
    )


@pytest.mark.parametrize("tie", ["none", "decoder", "all"])
def test_what_is_written_is_read_back_with_tied_tensors_stored_once(
    tie: str, tiny_tokenizer_folder: Path, tmp_path: Path
) -> None:
    config = tiny_config(Tokenizer.load(tiny_tokenizer_folder), tie=tie)
    network = Transformer(config).eval()
    described = {"card": tiny_card(name="round-trip"), "provenance": {"steps": 7}}
    save_network(tmp_path / "model", network, tiny_tokenizer_folder, **described)
    checkpoint = load_checkpoint(tmp_path / "model")
    assert (checkpoint.config, checkpoint.card) == (config, tiny_card(name="round-trip"))
    assert checkpoint.provenance["steps"] == 7
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    loaded = checkpoint.network()
    assert checkpoint.num_parameters == loaded.num_parameters() == network.num_parameters()
    assert (loaded.output.weight is loaded.target_embedding.tokens.weight) == (tie != "none")
    source, target = torch.tensor([[4, 20, 30, 3]]), torch.tensor([[2, 40]])
    assert torch.equal(loaded(source, target), network(source, target))


def test_later_changes_of_the_files_are_refused_and_change_no_network(folder: Path) -> None:
    """If the files were memory-mapped, truncating them would crash the process."""
    checkpoint = load_checkpoint(folder)
    network = checkpoint.network()
    before = {name: weight.clone() for name, weight in network.state_dict().items()}
    size = (folder / "model.safetensors").stat().st_size
    for content in (b"\0" * size, b""):
        with (folder / "model.safetensors").open("r+b") as file:
            file.truncate(len(content))
            file.write(content)
        with pytest.raises(CheckpointError, match=r"model\.safetensors was changed after it had been verifi"):
            checkpoint.network()
        assert all(torch.equal(weight, before[name]) for name, weight in network.state_dict().items())


@pytest.mark.parametrize("replace", [Path.unlink, lambda path: path.with_suffix(".new").replace(path)])
def test_a_replaced_folder_changes_no_open_checkpoint(folder: Path, replace: Callable[[Path], None]) -> None:
    checkpoint = load_checkpoint(folder)
    before = checkpoint.state_dict()
    (folder / "model.new").write_bytes(b"other weights")
    replace(folder / "model.safetensors")
    assert all(torch.equal(weight, before[name]) for name, weight in checkpoint.state_dict().items())


def test_saving_replaces_a_folder_and_changes_its_checksum(folder: Path, tiny_checkpoint: Path) -> None:
    checkpoint = load_checkpoint(folder)
    assert checkpoint.checksum == load_checkpoint(tiny_checkpoint).checksum
    (folder / "left-over.txt").write_text("from before")
    save_again(folder, checkpoint, "bfloat16")
    replaced = load_checkpoint(folder)
    assert replaced.card.version == "2"
    assert replaced.checksum != checkpoint.checksum
    assert set(replaced.weights.dtypes.values()) == {"bfloat16"}
    assert not (folder / "left-over.txt").exists()
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_a_full_disk_leaves_the_good_checkpoint(folder: Path) -> None:
    checkpoint = load_checkpoint(folder)
    with largest_file(10_000), pytest.raises(CheckpointError, match=r"cannot write .*File too large"):
        save_again(folder, checkpoint)
    assert load_checkpoint(folder).checksum == checkpoint.checksum
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


@pytest.mark.parametrize("name", ["config.json", "provenance.json", "tokenizer.json", "model.safetensors"])
@pytest.mark.parametrize(
    ("make", "state"), [(os.mkfifo, "no file"), (os.mkdir, "no file"), (lambda path: None, "missing")]
)
def test_what_is_no_file_is_not_opened(
    folder: Path, name: str, make: Callable[[Path], None], state: str
) -> None:
    (folder / name).unlink()
    make(folder / name)
    with pytest.raises(CheckpointError, match=f"is incomplete: {name} is {state}$"):
        load_checkpoint(folder)


def flipped(content: bytes) -> bytes:
    """One bit is another one; JSON stays JSON."""
    digit = content.rindex(b"3")
    return content[:digit] + b"2" + content[digit + 1 :]


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        *((name, flipped, "") for name in ("config.json", "model.safetensors", "tokenizer.model")),
        ("model.safetensors", lambda content: content[:-1], r": it has \d+ bytes instead of"),
        ("model.safetensors", lambda content: content[: len(content) // 2].ljust(len(content), b"\0"), ""),
    ],
)
def test_a_damaged_file_is_detected(
    folder: Path, name: str, damage: Callable[[bytes], bytes], message: str
) -> None:
    (folder / name).write_bytes(damage((folder / name).read_bytes()))
    with pytest.raises(CheckpointError, match=rf"{re.escape(name)} is corrupt{message}"):
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


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda tensors: tensors["decoder.norm.weight"].fill_(torch.nan), " holds NaN or infinity"),
        (lambda tensors: tensors["decoder.norm.weight"][:1].fill_(torch.inf), " holds NaN or infinity"),
        (lambda tensors: tensors.pop("decoder.norm.weight"), " is missing"),
        (lambda tensors: tensors.update({"decoder.norm.weight": torch.ones(32).char()}), " must be floating"),
        (lambda tensors: tensors.update({"decoder.norm.weight": torch.ones(8)}), r" must have shape \[32\]"),
        (
            lambda tensors: tensors.update({"decoder.norm.weight.x": torch.ones(1)}),
            " is not part of this arch",
        ),
    ],
)
def test_a_wrong_tensor_is_named(
    folder: Path, edit: Callable[[dict[str, torch.Tensor]], None], message: str
) -> None:
    weights = load_file(folder / "model.safetensors")
    edit(weights)
    save_file(weights, folder / "model.safetensors")
    resign(folder)
    with pytest.raises(CheckpointError, match=rf"tensor 'decoder\.norm\.weight(\.x)?'{message}"):
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
        ("quantisation", {}, r"config\.json: `quantisation` must be one of format_version, card"),
    ],
)
def test_a_value_that_cannot_work_is_named(
    folder: Path, section: str, values: dict[str, object], message: str
) -> None:
    edit_config(folder, section, **values)
    with pytest.raises(CheckpointError, match=message):
        load_checkpoint(folder)


def test_a_byte_order_mark_before_json_is_ignored(folder: Path) -> None:
    config = folder / "config.json"
    content = b"\xef\xbb\xbf" + config.read_bytes()
    config.write_bytes(content)
    assert read_config(folder)[1].name == "tiny"


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


@pytest.mark.parametrize(
    "name", ["model.safetensors", "tokenizer.model", "tokenizer.json", "shortlist.safetensors"]
)
def test_a_file_that_nothing_vouches_for_is_not_used(folder: Path, name: str) -> None:
    (folder / name).touch()
    provenance = json.loads((folder / "provenance.json").read_text())
    provenance["files"].pop(name, None)
    (folder / "provenance.json").write_text(json.dumps(provenance))
    with pytest.raises(CheckpointError, match=rf"{re.escape(name)} is not listed in provenance\.json"):
        load_checkpoint(folder)


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="nowhere does not exist"):
        load_checkpoint(tmp_path / "nowhere")
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match="file is not a folder"):
        load_checkpoint(tmp_path / "file")
