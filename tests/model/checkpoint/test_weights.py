"""Tensors are stored in the type asked for and read bit by bit; nothing broken is written or read."""

import json
import re
import weakref
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from model.checkpoint.manifest import FileRecord, read_records, write_provenance
from model.checkpoint.weights import StorageType, StoredTensor, open_tensors, read_weights
from model.checkpoint.weights_writer import Read, storable, write_weights
from model.config import preset
from model.errors import CheckpointError
from model.network.quantisation import quantise_rows
from model.network.transformer import Transformer

CONFIG = preset("small", source_vocab_size=50, target_vocab_size=50, model_dim=16, num_heads=2, ffn_dim=32)


def records(folder: Path) -> Mapping[str, FileRecord]:
    write_provenance(folder, {})
    return read_records(folder)


def write(folder: Path, max_file_bytes: int, storage: StorageType | None = None) -> dict[str, torch.Tensor]:
    weights = Transformer(CONFIG).state_dict()
    tensors = storable(CONFIG, weights)
    write_weights(folder, CONFIG, tensors, storage, max_file_bytes=max_file_bytes)
    return {name: weights[name] for name in tensors}


@pytest.mark.parametrize("storage", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("max_file_bytes", [1, 5_000, 20_000])
def test_shards_hold_everything_and_stay_small(
    tmp_path: Path, max_file_bytes: int, storage: StorageType
) -> None:
    weights = write(tmp_path, max_file_bytes, storage)
    shards = sorted(tmp_path.glob("model-*.safetensors"))
    assert len(shards) > 1
    assert shards[0].name == f"model-00001-of-{len(shards):05}.safetensors"
    if max_file_bytes > 5_000:
        assert all(path.stat().st_size <= max_file_bytes for path in shards)
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    read = read_weights(tmp_path, CONFIG, records(tmp_path))
    assert {name for name in index["weight_map"] if not name.endswith("_scale")} == weights.keys()
    assert index["metadata"]["total_size"] == read.nbytes == sum(tensor.nbytes for tensor in read.values())
    for name, tensor in weights.items():
        kept = tensor if storage == "float32" else read[name].torch()
        assert torch.equal(read[name].torch(), kept.to(read[name].torch().dtype))
        assert torch.allclose(kept.float(), tensor, atol=float(tensor.abs().max()) / 200)


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    write(tmp_path, 20_000)
    known = records(tmp_path)
    (tmp_path / "model-00002-of-00005.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"model-00002-of-00005\.safetensors is missing"):
        read_weights(tmp_path, CONFIG, known)


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
    write(folder, 20_000)
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
    read = dict(open_tensors(tmp_path / "file"))
    assert read.keys() == written.keys()
    for name, tensor in written.items():
        found = read[name]
        assert torch.equal(found.torch(), tensor)
        assert found.torch().dtype == dtype
        assert str(dtype) == f"torch.{found.dtype}"
        assert (found.shape, found.nbytes) == (tensor.shape, tensor.nbytes)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_what_is_not_finite_is_refused(tmp_path: Path, dtype: torch.dtype, value: float) -> None:
    save_file({"largest": torch.full((3,), torch.finfo(dtype).max, dtype=dtype)}, tmp_path / "file")
    assert dict(open_tensors(tmp_path / "file"))["largest"].is_finite()
    many = torch.ones(2**20 + 3, dtype=dtype)
    many[-1] = value
    save_file({"whole": torch.ones(3, dtype=dtype), "broken": many}, tmp_path / "file")
    with pytest.raises(CheckpointError, match="file: tensor 'broken' holds NaN or infinity"):
        open_tensors(tmp_path / "file")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_numbers_are_rounded_as_pytorch_rounds_them(dtype: StorageType) -> None:
    bits = np.random.default_rng(5).integers(0, 2**32, (400, 1000), np.uint32)
    numbers = bits.view(np.float32)
    expected = torch.from_numpy(numbers).to(getattr(torch, dtype))
    rounded = StoredTensor.rounded(numbers, dtype)
    assert torch.equal(rounded.torch().nan_to_num(9.0), expected.nan_to_num(9.0))
    assert torch.equal(torch.from_numpy(rounded.floats()).nan_to_num(9.0), expected.float().nan_to_num(9.0))


@pytest.mark.parametrize("width", [1, 7, 300_000])
def test_rows_are_quantised_as_for_int8_products(width: int) -> None:
    rows = torch.randn(9, width, generator=torch.Generator().manual_seed(3)) * 10
    rows[3] = 0
    integers, scale = quantise_rows(rows)
    rounded = StoredTensor.rounded(rows.numpy(), "int8")
    assert rounded.scale is not None
    assert np.array_equal(rounded.values, integers.numpy())
    assert np.array_equal(rounded.scale, scale[:, 0].numpy())
    assert np.array_equal(rounded.floats(), (integers * scale).numpy())
    rows[4, 0] = torch.nan
    assert rounded.is_finite()
    assert not StoredTensor.rounded(rows.numpy(), "int8").is_finite()


@pytest.mark.parametrize(
    ("scale", "message"),
    [
        (torch.ones(2, dtype=torch.int32), "tensor 'a_scale' must be floating point, but is I32"),
        (None, "must be floating point, or int8 with a float32 'a_scale'"),
        (torch.ones(2, dtype=torch.float16), "must be floating point, or int8 with a float32 'a_scale'"),
        (torch.ones(3), r"must be a matrix with a scale for each row, but they are \[2, 3\] and \[3\]"),
        (torch.tensor([1, torch.inf]), "tensor 'a_scale' holds NaN or infinity"),
    ],
)
def test_integers_without_sound_scales_are_refused(
    tmp_path: Path, scale: torch.Tensor | None, message: str
) -> None:
    tensors = {"a": torch.ones(2, 3, dtype=torch.int8)} | ({} if scale is None else {"a_scale": scale})
    save_file(tensors, tmp_path / "file")
    with pytest.raises(CheckpointError, match=message):
        open_tensors(tmp_path / "file")


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
        dict(open_tensors(tmp_path / "file"))


def test_a_tensor_without_numbers_is_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(_file({"a": {**ENTRY, "shape": [0], "data_offsets": [0, 0]}}, b""))
    assert dict(open_tensors(tmp_path / "file"))["a"].shape == (0,)


@pytest.mark.parametrize("storage", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("given", [torch.float32, torch.bfloat16, torch.float16])
def test_weights_are_stored_in_the_type_asked_for(
    tmp_path: Path, given: torch.dtype, storage: StorageType
) -> None:
    weights = {name: tensor.to(given) for name, tensor in Transformer(CONFIG).state_dict().items()}
    name = "decoder.layers.0.cross.query.weight"
    for asked, expected in ((storage, storage), (None, str(given).removeprefix("torch."))):
        write_weights(tmp_path, CONFIG, storable(CONFIG, weights), asked)
        stored = open_tensors(tmp_path / "model.safetensors")
        assert set(stored.dtypes.values()) == {expected}
        assert torch.equal(stored[name].torch(), weights[name].float().to(getattr(torch, expected)))


def test_what_float16_cannot_hold_is_refused(tmp_path: Path) -> None:
    weights = Transformer(CONFIG).state_dict()
    weights["decoder.norm.weight"] = torch.full((16,), 1e5)
    write_weights(tmp_path, CONFIG, storable(CONFIG, weights), "bfloat16")
    with pytest.raises(CheckpointError, match=r"'decoder\.norm\.weight' holds numbers too large for float16"):
        write_weights(tmp_path, CONFIG, storable(CONFIG, weights), "float16")


def test_weights_of_another_network_are_refused(tmp_path: Path) -> None:
    weights = Transformer(CONFIG).state_dict()
    with pytest.raises(CheckpointError, match="'novel' is not part of this architecture"):
        storable(CONFIG, {**weights, "novel": torch.ones(1)})
    tensors = storable(CONFIG, weights)
    with pytest.raises(CheckpointError, match="'novel' is not part of this architecture"):
        write_weights(tmp_path, CONFIG, tensors | {"novel": tensors["decoder.norm.weight"]})
    del tensors["encoder.norm.weight"]
    with pytest.raises(CheckpointError, match=r"'encoder\.norm\.weight' is missing"):
        write_weights(tmp_path, CONFIG, tensors)
    assert not list(tmp_path.iterdir())


def test_integers_are_no_weights() -> None:
    weights = Transformer(CONFIG).state_dict() | {"decoder.norm.weight": torch.ones(16, dtype=torch.int8)}
    with pytest.raises(CheckpointError, match=r"'decoder\.norm\.weight' must be floating point"):
        storable(CONFIG, weights)["decoder.norm.weight"]()


def test_a_file_has_the_bytes_that_safetensors_writes(tmp_path: Path) -> None:
    tensors = storable(CONFIG, Transformer(CONFIG).state_dict())
    write_weights(tmp_path, CONFIG, tensors)
    save_file(
        {name: read().torch() for name, read in tensors.items()}, tmp_path / "expected", {"format": "pt"}
    )
    assert (tmp_path / "model.safetensors").read_bytes() == (tmp_path / "expected").read_bytes()


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (StoredTensor(np.ones(15, np.float32), "float32"), r"must have shape \[16\], but has \[15\] instead"),
        (StoredTensor(np.full(16, np.nan, np.float32), "float32"), "holds NaN or infinity"),
        (StoredTensor(np.ones(16), "float32"), "must be float32, but is float64"),
        (
            StoredTensor(np.ones(16, np.int8), "int8", np.ones(16, np.float32)),
            "must have a scale for each row",
        ),
    ],
)
def test_a_tensor_that_does_not_fit_is_not_written(
    tmp_path: Path, tensor: StoredTensor, message: str
) -> None:
    tensors = storable(CONFIG, Transformer(CONFIG).state_dict()) | {"decoder.norm.weight": lambda: tensor}
    with pytest.raises(CheckpointError, match=f"the weights: tensor 'decoder.norm.weight' {message}"):
        write_weights(tmp_path, CONFIG, tensors)


def test_one_tensor_is_in_memory_at_a_time(tmp_path: Path) -> None:
    """Except for those of one small file."""
    living = weakref.WeakSet[StoredTensor]()

    def counted(read: Read) -> Read:
        def run() -> StoredTensor:
            assert not living
            tensor = read()
            living.add(tensor)
            return tensor

        return run

    tensors = storable(CONFIG, Transformer(CONFIG).state_dict())
    write_weights(tmp_path, CONFIG, {name: counted(read) for name, read in tensors.items()}, max_file_bytes=1)
