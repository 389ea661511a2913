"""Weights are read from as many files as there are."""

import json
import re
from pathlib import Path

import pytest
import torch

from model.checkpoint.manifest import FileRecord
from model.checkpoint.weights import read_weights
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
