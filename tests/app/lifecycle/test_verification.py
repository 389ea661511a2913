"""What a checkpoint makes of its self-test sentences, through the engines that are to serve it."""

import shutil
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from app.backend import Model
from app.lifecycle.engine_backend import EngineBackend
from app.lifecycle.warm_up import load_verified
from app.settings import Settings
from model.checkpoint.manifest import PROVENANCE, read_json, write_provenance
from model.errors import CheckpointError
from tests.embedded import EMBEDDED, NAME
from tests.model.native_library import needs_native

PRECISIONS = [
    pytest.param("auto", "auto", id="int8", marks=needs_native),
    pytest.param("auto", "bfloat16", id="bfloat16", marks=needs_native),
    pytest.param("auto", "float32", id="float32", marks=needs_native),
    pytest.param("off", "float32", id="pytorch"),
]


def load(folder: Path, native: str, precision: str, monkeypatch: pytest.MonkeyPatch) -> Model:
    monkeypatch.setenv("DRAGOMAN_NATIVE", native)
    settings = Settings(_env_file=None, checkpoint=(folder,), device="cpu", precision=precision, workers=2)
    backend = EngineBackend(settings)
    (model,) = backend.list_models()
    load_verified(backend, model).close()
    return model


@pytest.mark.parametrize(("native", "precision"), PRECISIONS)
def test_the_embedded_checkpoint_translates_as_when_it_was_written(
    native: str, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load(EMBEDDED, native, precision, monkeypatch)
    directions = {(each.source_language, each.target_language) for each in model.self_test}
    assert directions == set(model.card.pairs)


def test_scrambled_weights_with_the_right_checksums_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The weights are finite and have the right shapes and checksums; only translating shows the fault."""
    folder = shutil.copytree(EMBEDDED, tmp_path / "scrambled")
    scramble(folder, "")
    with pytest.raises(CheckpointError, match=f"{NAME} cannot be served: its self-test sentences"):
        load(folder, "auto", "auto", monkeypatch)


def test_a_single_scrambled_layer_is_refused_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = shutil.copytree(EMBEDDED, tmp_path / "scrambled")
    scramble(folder, "decoder.layers.0.")
    with pytest.raises(CheckpointError, match="self-test sentences"):
        load(folder, "auto", "auto", monkeypatch)


def scramble(folder: Path, prefix: str) -> None:
    """Reverse the weights whose names begin so."""
    for file in folder.glob("*.safetensors"):
        weights = load_file(file)
        turned = {
            name: each.flip(0).contiguous() for name, each in weights.items() if name.startswith(prefix)
        }
        save_file(weights | turned, file)
    resign(folder)


def resign(folder: Path) -> None:
    """Make the checksums agree with the files again."""
    kept = {key: value for key, value in read_json(folder / PROVENANCE).items() if key != "files"}
    write_provenance(folder, kept)
