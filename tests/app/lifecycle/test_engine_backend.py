"""Loading: names, workers, and the budget of decoder state."""

import json
import shutil
from pathlib import Path

import pytest

from app.lifecycle.engine_backend import EngineBackend
from app.settings import Settings
from model.checkpoint.editing import add_shortlist
from model.checkpoint.folder import load_checkpoint
from model.checkpoint.manifest import PROVENANCE, read_json
from model.checkpoint.self_test import PROVENANCE_KEY, SelfTestSentence
from model.decoding.device import available_cores
from model.decoding.engine import DecodingEngine
from model.errors import ConfigError
from model.request import DecodeOptions, DecodeRequest
from tests.model.native_library import needs_native
from tests.model.shortlists import shortlist_of


def load(*folders: Path, **settings: object) -> EngineBackend:
    return EngineBackend.load(Settings(_env_file=None, checkpoint=folders, device="cpu", **settings))


def test_two_checkpoints_of_one_name_are_refused(tiny_checkpoint: Path) -> None:
    with pytest.raises(ConfigError, match="different names, but is 'tiny, tiny'") as refusal:
        load(tiny_checkpoint, tiny_checkpoint)
    assert refusal.value.field == "checkpoint"


@needs_native
def test_natively_there_is_a_worker_a_core(tiny_checkpoint: Path) -> None:
    backend = load(tiny_checkpoint)
    assert backend.workers == available_cores()
    assert backend.models()[0].precision == "int8"
    backend.close()


def test_with_pytorch_there_is_one_worker(tiny_checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGOMAN_NATIVE", "off")
    backend = load(tiny_checkpoint)
    assert backend.workers == 1
    assert backend.models()[0].precision == "float32"


def test_each_worker_has_an_engine_of_its_own(tiny_checkpoint: Path) -> None:
    backend = load(tiny_checkpoint, workers=3)
    engines = [backend.engine("tiny", worker) for worker in range(backend.workers)]
    assert len(set(map(id, engines))) == 3
    assert backend.engine("tiny", 1) is engines[1]
    backend.close()


def test_a_shortlist_is_used_only_if_that_is_asked_for(tiny_checkpoint: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"{tiny_checkpoint} has no shortlist") as refusal:
        load(tiny_checkpoint, shortlist="on")
    assert refusal.value.field == "shortlist"
    folder = shutil.copytree(tiny_checkpoint, tmp_path / "copy")
    config = load_checkpoint(folder).config
    only_eos = shortlist_of([config.eos_id], [[]] * config.source_vocab_size)
    add_shortlist(folder, only_eos, {})
    request = DecodeRequest((8, 9, config.eos_id), DecodeOptions(strategy="greedy"))
    for shortlist, is_empty in (("off", False), ("on", True)):
        backend = load(folder, shortlist=shortlist, workers=1)
        engine = backend.engine("tiny", 0)
        assert isinstance(engine, DecodingEngine)
        (result,) = engine.decode([request])
        assert isinstance(result, list)
        assert (result[0].token_ids == ()) is is_empty
        backend.close()


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


def test_a_checkpoint_that_is_lent_comes_with_its_new_self_test_sentences(
    tiny_checkpoint: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(tiny_checkpoint, tmp_path / "copy")
    settings = Settings(_env_file=None, checkpoint=(folder,), device="cpu", workers=1)
    backend = EngineBackend.load(settings)
    golden = SelfTestSentence(source_language="en", target_language="fr", source="one", translation="un")
    provenance = read_json(folder / PROVENANCE)
    (folder / PROVENANCE).write_text(json.dumps(provenance | {PROVENANCE_KEY: [golden.to_dict()]}))
    following = EngineBackend.load(settings, backend)
    assert (backend.models()[0].self_test, following.models()[0].self_test) == ((), (golden,))
    assert following._loaded[0].factory is backend._loaded[0].factory
    following.close()
    backend.close()
