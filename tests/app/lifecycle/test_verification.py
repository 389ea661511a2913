"""What a checkpoint makes of its self-test sentences, through the engines that are to serve it."""

import shutil
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from app.lifecycle.engine_backend import EngineBackend
from app.lifecycle.model_set import warm_up
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


def backend_of(folder: Path, native: str, precision: str, monkeypatch: pytest.MonkeyPatch) -> EngineBackend:
    monkeypatch.setenv("DRAGOMAN_NATIVE", native)
    settings = Settings(_env_file=None, checkpoint=(folder,), device="cpu", precision=precision, workers=2)
    return EngineBackend.load(settings)


@pytest.mark.parametrize(("native", "precision"), PRECISIONS)
def test_the_embedded_checkpoint_translates_as_when_it_was_written(
    native: str, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = backend_of(EMBEDDED, native, precision, monkeypatch)
    directions = {(each.source_language, each.target_language) for each in backend.models()[0].self_test}
    assert directions == set(backend.models()[0].card.pairs)
    warm_up(backend)
    backend.close()


def test_scrambled_weights_with_the_right_checksums_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The weights are finite and have the right shapes and checksums; only translating shows the fault."""
    folder = shutil.copytree(EMBEDDED, tmp_path / "scrambled")
    scramble(folder, "")
    backend = backend_of(folder, "auto", "auto", monkeypatch)
    with pytest.raises(CheckpointError, match=f"{NAME} cannot be served: its self-test sentences"):
        warm_up(backend)
    backend.close()


def test_a_single_scrambled_layer_is_refused_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = shutil.copytree(EMBEDDED, tmp_path / "scrambled")
    scramble(folder, "decoder.layers.0.")
    backend = backend_of(folder, "auto", "auto", monkeypatch)
    with pytest.raises(CheckpointError, match="self-test sentences"):
        warm_up(backend)
    backend.close()


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
