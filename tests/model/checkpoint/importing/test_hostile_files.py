"""A broken or hostile file of Hugging Face's folders is one line that names it, and nothing is written."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from model.checkpoint.folder import load_checkpoint
from model.checkpoint.importing.importer import import_model
from tests.model.checkpoint.importing import hugging_face_folders as folders
from tests.model.checkpoint.importing.refusals import refused

Copy = Callable[[str], Path]
FAMILIES = {"marian": folders.marian, "m2m": folders.m2m, "t5": folders.t5}


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    made = {}
    for name, family in FAMILIES.items():
        made[name] = tmp_path_factory.mktemp(name) / "opus-mt-en-fr"
        family(made[name])
    return made


@pytest.fixture
def copy_of(originals: dict[str, Path], tmp_path: Path) -> Copy:
    """Makes a copy of a family's folder, which a test may damage."""
    return lambda family: shutil.copytree(originals[family], tmp_path / "opus-mt-en-fr")


def changed(path: Path, **values: object) -> None:
    content = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(content | values), encoding="utf-8")


NAMES = [
    (family, name)
    for family, names in (
        (
            "marian",
            ["config.json", "generation_config.json", "model.safetensors", "source.spm", "vocab.json"],
        ),
        ("m2m", ["sentencepiece.bpe.model", "special_tokens_map.json", "tokenizer_config.json"]),
        ("t5", ["spiece.model", "config.json"]),
    )
    for name in names
]
CORRUPTIONS: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda content: b"",
    "truncated": lambda content: content[: len(content) // 2],
    "noise": lambda content: bytes(range(256)) * (len(content) // 256 + 1),
    "another": lambda content: b"PK\x03\x04" + content,
    "deep": lambda content: b"[" * 200_000,
}


@pytest.mark.parametrize("corruption", CORRUPTIONS)
@pytest.mark.parametrize(("family", "name"), NAMES)
def test_a_corrupt_file(copy_of: Copy, family: str, name: str, corruption: str) -> None:
    folder = copy_of(family)
    (folder / name).write_bytes(CORRUPTIONS[corruption]((folder / name).read_bytes()))
    refused(folder, name)


@pytest.mark.parametrize(
    "name",
    [
        "model.safetensors",
        "source.spm",
        "target.spm",
        "vocab.json",
        "spiece.model",
        "sentencepiece.bpe.model",
    ],
)
def test_a_missing_file(originals: dict[str, Path], tmp_path: Path, name: str) -> None:
    origin = next(path for path in originals.values() if (path / name).exists())
    folder = shutil.copytree(origin, tmp_path / "opus-mt-en-fr")
    (folder / name).rename(folder / f"{name}.renamed")
    refused(folder, name)


@pytest.mark.parametrize(
    ("family", "needed", "other"),
    [
        ("marian", "source.spm", "spiece.model"),
        ("pegasus", "source.spm", "spiece.model"),
        ("m2m", "sentencepiece.bpe.model", "spiece.model"),
        ("mbart", "sentencepiece.bpe.model", "spiece.model"),
        ("t5", "spiece.model", "sentencepiece.bpe.model"),
    ],
)
def test_the_tokenizer_of_another_family(tmp_path: Path, family: str, needed: str, other: str) -> None:
    folder = tmp_path / "opus-mt-en-fr"
    getattr(folders, family)(folder)
    (folder / needed).rename(folder / other)
    message = refused(folder, f"must hold {needed}; its {other} alone is not read for ")
    assert message.endswith(json.loads((folder / "config.json").read_text())["model_type"])


@pytest.mark.parametrize(
    ("family", "field", "value"),
    [
        ("marian", "model_type", "gpt2"),
        ("marian", "model_type", "nllb-moe"),
        ("marian", "d_model", "20"),
        ("marian", "d_model", 10**30),
        ("marian", "d_model", 18),
        ("marian", "vocab_size", 10**9),
        ("marian", "encoder_layers", 10**9),
        ("marian", "encoder_layers", 4),
        ("marian", "encoder_layers", 2),
        ("t5", "num_layers", 2),
        ("marian", "decoder_ffn_dim", 56),
        ("marian", "decoder_attention_heads", 4),
        ("marian", "activation_function", "quick_gelu"),
        ("marian", "scale_embedding", 1),
        ("marian", "pad_token_id", -1),
        ("marian", "pad_token_id", 10**6),
        ("m2m", "max_position_embeddings", 0),
        ("m2m", "max_position_embeddings", [64]),
        ("t5", "feed_forward_proj", "gated-tanh"),
        ("t5", "d_kv", 7),
        ("t5", "layer_norm_epsilon", "small"),
        ("t5", "relative_attention_num_buckets", 31),
    ],
)
def test_a_configuration_that_cannot_be_computed(
    copy_of: Copy, family: str, field: str, value: object
) -> None:
    folder = copy_of(family)
    changed(folder / "config.json", **{field: value})
    message = refused(folder)
    assert re.search(rf"`(num_)?{field}`|tensor|`num_heads`|`vocab_size`|decoder_attention_heads", message), (
        message
    )


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("num_beams", 1000),
        ("num_beams", 2.5),
        ("length_penalty", -1.0),
        ("early_stopping", "sometimes"),
        ("bad_words_ids", [[1, 2]]),
        ("bad_words_ids", [["a"]]),
        ("suppress_tokens", "all"),
        ("num_beam_groups", 2),
        ("encoder_no_repeat_ngram_size", 3),
        ("max_length", -5),
        ("min_new_tokens", "6"),
        ("forced_decoder_ids", [[1, 2]]),
    ],
)
def test_a_search_that_cannot_be_made(copy_of: Copy, field: str, value: object) -> None:
    folder = copy_of("marian")
    changed(folder / "generation_config.json", **{field: value})
    refused(folder, {"num_beams": "beam"}.get(field, f"`{field}`"))


def test_an_unexpected_error_of_a_reader_is_one_line(copy_of: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise KeyError("line\nbreak")

    folder = copy_of("marian")
    monkeypatch.setattr("model.checkpoint.importing.formats.hugging_face_folder.read", fail)
    refused(folder, f"{folder} cannot be read as a Hugging Face folder: KeyError: ")


def test_parts_of_different_models(originals: dict[str, Path], copy_of: Copy) -> None:
    folder = copy_of("marian")
    shutil.copyfile(originals["m2m"] / "model.safetensors", folder / "model.safetensors")
    refused(folder, "vocab_size")
    shutil.copyfile(originals["t5"] / "model.safetensors", folder / "model.safetensors")
    refused(folder, "tensor")


@pytest.mark.parametrize(
    "weight_map", [None, {}, {"a": "../evil.safetensors"}, {"a": 1}, {"a": "b.safetensors"}]
)
def test_an_index_of_weights(copy_of: Copy, weight_map: object) -> None:
    folder = copy_of("marian")
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    refused(folder)


def test_numbers_that_are_not_finite(copy_of: Copy) -> None:
    folder = copy_of("marian")
    tensors = load_file(folder / "model.safetensors")
    tensors["model.encoder.layers.0.fc1.bias"][3] = float("nan")
    save_file(tensors, folder / "model.safetensors")
    refused(folder, f"the weights of {folder}: tensor 'encoder.layers.0.feed_forward.input.bias' holds NaN")


def test_a_pickle_of_tensors_gives_the_same_checkpoint(copy_of: Copy, tmp_path: Path) -> None:
    folder = copy_of("m2m")
    import_model(folder, tmp_path / "one")
    tensors = load_file(folder / "model.safetensors")
    tied = {"lm_head.weight": tensors["model.shared.weight"], "model.encoder.version": torch.ones(1)}
    (folder / "model.safetensors").unlink()
    torch.save(tensors | tied, folder / "pytorch_model.bin")
    import_model(folder, tmp_path / "other")
    one, other = (load_checkpoint(tmp_path / name).state_dict() for name in ("one", "other"))
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
