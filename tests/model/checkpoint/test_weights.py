"""Tensors are read bit by bit from one file or several, and no damaged file is read."""

import json
import re
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from model.checkpoint.manifest import FileRecord
from model.checkpoint.weights import read_weights, stored_tensors
from model.checkpoint.writing import prepare, write_weights
from model.errors import CheckpointError
from model.network.transformer import Transformer
from model.presets import preset

CONFIG = preset("small", source_vocab_size=50, target_vocab_size=50, model_dim=16, num_heads=2, ffn_dim=32)


def records(folder: Path) -> dict[str, FileRecord]:
    return {path.name: FileRecord("", 0) for path in folder.iterdir()}


@pytest.mark.parametrize("max_file_bytes", [1, 10_000, 20_000])
def test_shards_hold_everything_and_stay_small(tmp_path: Path, max_file_bytes: int) -> None:
    weights = prepare(CONFIG, Transformer(CONFIG).state_dict(), None)
    write_weights(tmp_path, weights, max_file_bytes)
    shards = sorted(tmp_path.glob("model-*.safetensors"))
    assert len(shards) > 1
    assert shards[0].name == f"model-00001-of-{len(shards):05}.safetensors"
    if max_file_bytes > 1:
        assert all(path.stat().st_size <= max_file_bytes for path in shards)
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    assert index["weight_map"].keys() == weights.keys()
    read = read_weights(tmp_path, CONFIG, records(tmp_path))
    assert all(torch.equal(read[name].torch(), tensor) for name, tensor in weights.items())


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    write_weights(tmp_path, prepare(CONFIG, Transformer(CONFIG).state_dict(), None), 20_000)
    (tmp_path / "model-00002-of-00005.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"model-00002-of-00005\.safetensors is missing"):
        read_weights(tmp_path, CONFIG, records(tmp_path))


@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("../other.safetensors", r"is not listed in provenance\.json"),
        ("/nowhere/other.safetensors", "is missing"),
        ("other.safetensors", "is missing"),
    ],
)
def test_an_index_names_files_of_its_folder_alone(tmp_path: Path, name: str, state: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    write_weights(folder, prepare(CONFIG, Transformer(CONFIG).state_dict(), None), 20_000)
    (folder / "model-00002-of-00005.safetensors").rename(tmp_path / "other.safetensors")
    index = folder / "model.safetensors.index.json"
    index.write_text(index.read_text().replace("model-00002-of-00005.safetensors", name))
    with pytest.raises(CheckpointError, match=f"{re.escape(name)} {state}"):
        read_weights(folder, CONFIG, records(folder))


@pytest.mark.parametrize("weight_map", [None, [], {"a": 3}])
def test_a_broken_index_is_named(tmp_path: Path, weight_map: object) -> None:
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    with pytest.raises(CheckpointError, match=r"index\.json must map each tensor to a file"):
        read_weights(tmp_path, CONFIG, records(tmp_path))


NUMBERS = torch.tensor([[0.0, -1.5, 3e-38], [65504.0, 1 / 3, -0.0]])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_every_type_is_read_bit_by_bit(tmp_path: Path, dtype: torch.dtype) -> None:
    written = {"a": NUMBERS.to(dtype), "b.c": NUMBERS[0].clone().to(dtype), "odd": torch.ones(3, dtype=dtype)}
    save_file(written, tmp_path / "file", {"format": "pt"})
    read = dict(stored_tensors(tmp_path / "file"))
    assert read.keys() == written.keys()
    for name, tensor in written.items():
        found = read[name]
        assert torch.equal(found.torch(), tensor)
        assert found.torch().dtype == dtype
        assert str(dtype) == f"torch.{found.dtype}"
        assert (found.shape, found.nbytes) == (tensor.shape, tensor.nbytes)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_what_is_not_finite_is_seen(tmp_path: Path, dtype: torch.dtype, value: float) -> None:
    largest = torch.full((3,), torch.finfo(dtype).max, dtype=dtype)
    broken = torch.tensor([1.0, 2.0, value], dtype=dtype)
    save_file({"broken": broken, "largest": largest}, tmp_path / "file")
    read = dict(stored_tensors(tmp_path / "file"))
    assert not read["broken"].is_finite()
    assert read["largest"].is_finite()


def test_what_is_changed_in_memory_does_not_reach_the_file(tmp_path: Path) -> None:
    save_file({"a": NUMBERS}, tmp_path / "file")
    before = (tmp_path / "file").read_bytes()
    dict(stored_tensors(tmp_path / "file"))["a"].torch().zero_()
    assert (tmp_path / "file").read_bytes() == before


def test_a_tensor_that_is_no_floating_point_is_named(tmp_path: Path) -> None:
    save_file({"count": torch.ones(3, dtype=torch.int32)}, tmp_path / "file")
    with pytest.raises(CheckpointError, match="tensor 'count' must be floating point, but is I32"):
        dict(stored_tensors(tmp_path / "file"))


def _file(header: object, numbers: bytes) -> bytes:
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + numbers


ENTRY = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"1234567",
        (2**62).to_bytes(8, "little") + b"{}",
        _file([], b""),
        _file({"a": ENTRY}, bytes(7)),
        _file({"a": ENTRY}, bytes(9)),
        _file({"a": {**ENTRY, "shape": [3]}}, bytes(8)),
        _file({"a": {**ENTRY, "data_offsets": [4, 12]}}, bytes(12)),
        _file({"a": ENTRY, "b": ENTRY}, bytes(8)),
        _file({"a": {**ENTRY, "dtype": "F33"}}, bytes(8)),
        _file({"a": {"dtype": "F32"}}, bytes(8)),
    ],
    ids=range(11),
)
def test_a_file_whose_header_and_numbers_disagree_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(CheckpointError, match="file is not a readable safetensors file"):
        dict(stored_tensors(tmp_path / "file"))


def test_a_tensor_without_numbers_is_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(_file({"a": {**ENTRY, "shape": [0], "data_offsets": [0, 0]}}, b""))
    assert dict(stored_tensors(tmp_path / "file"))["a"].shape == (0,)
