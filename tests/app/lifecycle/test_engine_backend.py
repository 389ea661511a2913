"""Listing and loading: names, workers, memory, the budget of decoder state, and self-test sentences."""

import gc
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from app.backend import LoadedModel, Model, load_verified
from app.lifecycle.engine_backend import EngineBackend
from app.settings import Settings
from model.checkpoint.editing import add_shortlist
from model.checkpoint.folder import load_checkpoint
from model.checkpoint.manifest import PROVENANCE, read_json, write_provenance
from model.checkpoint.self_test import PROVENANCE_KEY, SelfTestSentence
from model.checkpoint.weights import WEIGHTS
from model.decode_request import DecodeOptions, DecodeRequest
from model.decoding.device import available_cores
from model.decoding.engine import DecodingEngine
from model.errors import CheckpointError, ConfigError
from model.native.shared_weights import SharedWeights, WeightsHolder
from tests.embedded import EMBEDDED, NAME
from tests.model.native_library import needs_native
from tests.model.shortlists import shortlist_of
from tests.model.weights_holder import answering_holder, wait_until


def backend_of(*folders: Path, **settings: object) -> EngineBackend:
    return EngineBackend(Settings(_env_file=None, checkpoint=folders, device="cpu", **settings))


@pytest.fixture
def holder() -> Iterator[WeightsHolder]:
    with answering_holder() as holder:
        yield holder


def load(*folders: Path, **settings: object) -> LoadedModel:
    """The first of these checkpoints."""
    backend = backend_of(*folders, **settings)
    return backend.load(backend.list_models()[0])


def test_two_checkpoints_of_one_name_are_refused(tiny_checkpoint: Path) -> None:
    with pytest.raises(ConfigError, match="different names, but is 'tiny, tiny'") as refusal:
        backend_of(tiny_checkpoint, tiny_checkpoint).list_models()
    assert refusal.value.field == "checkpoint"


@pytest.mark.parametrize(
    ("native", "workers", "precision"),
    [pytest.param("auto", available_cores(), "int8", marks=needs_native), ("off", 1, "float32")],
)
def test_natively_there_is_a_worker_a_core_and_with_pytorch_one(
    tiny_checkpoint: Path, monkeypatch: pytest.MonkeyPatch, native: str, workers: int, precision: str
) -> None:
    monkeypatch.setenv("DRAGOMAN_NATIVE", native)
    assert backend_of(tiny_checkpoint).workers == workers
    loaded = load(tiny_checkpoint)
    assert (len({*map(id, loaded.engines)}), loaded.precision) == (workers, precision)
    loaded.close()


def test_each_worker_has_an_engine_of_its_own(tiny_checkpoint: Path) -> None:
    loaded = load(tiny_checkpoint, workers=3)
    assert len(set(map(id, loaded.engines))) == 3
    loaded.close()


@pytest.mark.parametrize("precision", ["float32", pytest.param("int8", marks=needs_native)])
def test_what_is_listed_is_what_is_loaded(tiny_checkpoint: Path, precision: str) -> None:
    backend = backend_of(tiny_checkpoint, precision=precision)
    (model,) = backend.list_models()
    checkpoint = load_checkpoint(tiny_checkpoint)
    assert (model.card, model.checksum) == (checkpoint.card, checkpoint.checksum)
    assert (model.parameters, model.folder) == (checkpoint.num_parameters, tiny_checkpoint)
    loaded = backend.load(model)
    assert model.precision == loaded.precision
    assert model.memory_bytes == pytest.approx(loaded.memory_bytes, rel=0.25)
    loaded.close()


def test_the_list_needs_no_content_but_finds_missing_and_cut_files(
    tiny_checkpoint: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(tiny_checkpoint, tmp_path / "copy")
    weights = folder / "model.safetensors"
    content = weights.read_bytes()
    backend = backend_of(folder)
    weights.write_bytes(bytes(len(content)))
    (model,) = backend.list_models()
    for check in (backend.load, backend.verify):
        with pytest.raises(CheckpointError, match=r"model\.safetensors is corrupt: its SHA-256"):
            check(model)
    weights.write_bytes(content[:-1])
    with pytest.raises(CheckpointError, match="bytes instead of"):
        backend.list_models()
    weights.unlink()
    with pytest.raises(CheckpointError, match=r"incomplete: model\.safetensors is missing"):
        backend.list_models()


def test_a_checkpoint_that_changed_since_it_was_listed_is_refused(
    tiny_checkpoint: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(tiny_checkpoint, tmp_path / "copy")
    backend = backend_of(folder)
    (model,) = backend.list_models()
    config = load_checkpoint(folder).config
    add_shortlist(folder, shortlist_of([config.eos_id], [[]] * config.source_vocab_size), {})
    with pytest.raises(CheckpointError, match="copy has changed since it was listed"):
        backend.load(model)


def test_a_shortlist_is_used_only_if_that_is_asked_for(tiny_checkpoint: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"{tiny_checkpoint} has no shortlist") as refusal:
        load(tiny_checkpoint, shortlist="on")
    assert refusal.value.field == "shortlist"
    folder = shutil.copytree(tiny_checkpoint, tmp_path / "copy")
    config = load_checkpoint(folder).config
    only_eos = shortlist_of([config.eos_id], [[]] * config.source_vocab_size)
    add_shortlist(folder, only_eos, {})
    request = DecodeRequest((8, 9, config.eos_id), DecodeOptions(strategy="greedy"))
    for shortlist, is_empty in (("auto", False), ("off", False), ("on", True)):
        loaded = load(folder, shortlist=shortlist, workers=1)
        (engine,) = loaded.engines
        assert isinstance(engine, DecodingEngine)
        (result,) = engine.decode([request])
        assert isinstance(result, list)
        assert (result[0].token_ids == ()) is is_empty
        loaded.close()


def test_decoder_state_must_hold_a_sentence(tiny_checkpoint: Path) -> None:
    with pytest.raises(ConfigError) as refusal:
        load(tiny_checkpoint, max_state_bytes=1000)
    assert refusal.value.field == "max_state_bytes"
    enough = int(refusal.value.requirement.split()[2])
    # 64 source tokens and 2 beams of 64; one layer, 32 wide, in 2 or 4 bytes a number.
    assert enough in (192 * 2 * 32 * 2, 192 * 2 * 32 * 4)
    load(tiny_checkpoint, max_state_bytes=enough).close()
    with pytest.raises(ConfigError):
        load(tiny_checkpoint, max_state_bytes=enough - 1)


def test_new_self_test_sentences_are_listed(tiny_checkpoint: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(tiny_checkpoint, tmp_path / "copy")
    backend = backend_of(folder)
    golden = SelfTestSentence(source_language="en", target_language="fr", source="one", translation="un")
    provenance = read_json(folder / PROVENANCE)
    (before,) = backend.list_models()
    (folder / PROVENANCE).write_text(json.dumps(provenance | {PROVENANCE_KEY: [golden.to_dict()]}))
    (after,) = backend.list_models()
    assert (before.self_test, after.self_test, before.checksum == after.checksum) == ((), (golden,), True)


@needs_native
def test_a_process_takes_packed_weights_from_another_and_reads_none(
    tiny_checkpoint: Path, tmp_path: Path, holder: WeightsHolder
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(tiny_checkpoint, folder)
    settings = Settings(_env_file=None, checkpoint=[folder], device="cpu")
    processes = [EngineBackend(settings, SharedWeights(holder.client)) for _ in range(2)]
    model = processes[0].list_models()[0]
    packing = load_verified(processes[0], model)
    (folder / WEIGHTS).write_bytes(bytes((folder / WEIGHTS).stat().st_size))
    mapping = load_verified(processes[1], model)
    assert mapping.memory_bytes == packing.memory_bytes
    with pytest.raises(CheckpointError):
        EngineBackend(settings).load(model)
    for loaded in (packing, mapping):
        loaded.close()
    del packing, mapping, loaded
    gc.collect()
    wait_until(lambda: holder.num_files == 0)


@needs_native
def test_weights_that_one_process_cannot_load_do_not_block_the_others(
    tiny_checkpoint: Path, tmp_path: Path, holder: WeightsHolder
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(tiny_checkpoint, folder)
    content = (folder / WEIGHTS).read_bytes()
    settings = Settings(_env_file=None, checkpoint=[folder], device="cpu")
    backend = EngineBackend(settings, SharedWeights(holder.client))
    model = backend.list_models()[0]
    (folder / WEIGHTS).write_bytes(bytes(len(content)))
    with pytest.raises(CheckpointError):
        backend.load(model)
    (folder / WEIGHTS).write_bytes(content)
    load_verified(backend, model).close()


# Self-test sentences

PRECISIONS = [
    pytest.param("auto", "auto", id="int8", marks=needs_native),
    pytest.param("auto", "bfloat16", id="bfloat16", marks=needs_native),
    pytest.param("auto", "float32", id="float32", marks=needs_native),
    pytest.param("off", "float32", id="pytorch"),
]


def verified(folder: Path, **settings: object) -> Model:
    backend = backend_of(folder, workers=2, **settings)
    (model,) = backend.list_models()
    load_verified(backend, model).close()
    return model


@pytest.mark.parametrize(("native", "precision"), PRECISIONS)
def test_the_embedded_checkpoint_translates_as_when_it_was_written(
    native: str, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRAGOMAN_NATIVE", native)
    model = verified(EMBEDDED, precision=precision)
    directions = {(each.source_language, each.target_language) for each in model.self_test}
    assert directions == set(model.card.pairs)


def test_scrambled_weights_with_the_right_checksums_are_refused(tmp_path: Path) -> None:
    """The weights are finite and have the right shapes and checksums; only translating shows the fault."""
    folder = shutil.copytree(EMBEDDED, tmp_path / "scrambled")
    for file in folder.glob("*.safetensors"):
        weights = load_file(file)
        turned = {name: weights[name].flip(0).contiguous() for name in weights if "decoder.layers.0." in name}
        save_file(weights | turned, file)
    # Make the checksums agree with the files again.
    kept = {key: value for key, value in read_json(folder / PROVENANCE).items() if key != "files"}
    write_provenance(folder, kept)
    with pytest.raises(CheckpointError, match=f"{NAME} cannot be served: its self-test sentences"):
        verified(folder)
