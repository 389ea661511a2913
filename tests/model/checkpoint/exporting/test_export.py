"""Exported folders, used as their README says, translate as we do."""

import json
from collections.abc import Sequence
from pathlib import Path

import ctranslate2
import pytest
import sentencepiece

from model.checkpoint.exporting.export import export_checkpoint
from model.checkpoint.folder import Checkpoint, load_checkpoint
from model.decode_request import DecodeOptions
from model.errors import ConfigError
from model.translation.translator import Translator
from tests.embedded import EMBEDDED, ROOT

GREEDY = DecodeOptions(strategy="greedy")


@pytest.fixture(scope="module")
def checkpoint(tiny_checkpoint: Path) -> Checkpoint:
    return load_checkpoint(tiny_checkpoint)


def ours(folder: Path, texts: Sequence[str]) -> list[str]:
    translator = Translator.load(folder, device="cpu", precision="float32")
    return [each.text for each in translator.translate(texts, source="en", target="fr", options=GREEDY)]


def by_ctranslate2(folder: Path, texts: Sequence[str]) -> list[str]:
    translator = ctranslate2.Translator(str(folder), intra_threads=1)
    pieces = sentencepiece.SentencePieceProcessor(str(folder / "tokenizer.model"))
    tokens = [["<2fr>", *pieces.encode(text, out_type=str), "</s>"] for text in texts]
    results = translator.translate_batch(tokens, beam_size=1)
    return [pieces.decode(result.hypotheses[0]) for result in results]


def by_hugging_face(folder: Path, texts: Sequence[str]) -> list[str]:
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSeq2SeqLM.from_pretrained(folder)
    batch = tokenizer([f">>fr<< {text}" for text in texts], return_tensors="pt", padding=True)
    decoded: list[str] = tokenizer.batch_decode(model.generate(**batch), skip_special_tokens=True)
    return decoded


@pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")
def test_the_embedded_checkpoint_translates_real_sentences_alike_everywhere(tmp_path: Path) -> None:
    lines = (ROOT / "examples" / "phrases-valid.en-fr.tsv").read_text(encoding="utf-8").splitlines()
    texts = [line.split("\t")[0].capitalize() for line in lines]
    expected = ours(EMBEDDED, texts)
    for export_format, translate in (("ctranslate2", by_ctranslate2), ("pegasus", by_hugging_face)):
        export_checkpoint(load_checkpoint(EMBEDDED), tmp_path / export_format, export_format)
        assert translate(tmp_path / export_format, texts) == expected


@pytest.mark.parametrize(
    ("export_format", "quantization"),
    [("ctranslate2", "int8"), ("pegasus", "bfloat16")],
)
def test_the_folder_says_what_it_is(
    checkpoint: Checkpoint, tmp_path: Path, export_format: str, quantization: str
) -> None:
    export_checkpoint(checkpoint, tmp_path / "out", export_format, quantization)
    description = json.loads((tmp_path / "out" / "dragoman.json").read_text())
    assert description["checksum"] == checkpoint.checksum
    assert description["quantization"] == quantization
    assert description["language_tags"] == {"en": "<2en>", "fr": "<2fr>"}
    text = (tmp_path / "out" / "README.md").read_text()
    assert checkpoint.checksum in text
    assert "{" not in text.replace("dragoman.json", "")


def test_what_cannot_be_exported_leaves_the_folder_as_it_was(checkpoint: Checkpoint, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    export_checkpoint(checkpoint, folder, "ctranslate2", "int8")
    before = sorted(path.name for path in folder.iterdir())
    with pytest.raises(ConfigError, match="`norm_position` must be 'post' for marian"):
        export_checkpoint(checkpoint, folder, "marian")
    assert sorted(path.name for path in folder.iterdir()) == before
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize(
    ("export_format", "quantization", "field"),
    [("onnx", "float32", "format"), ("marian", "int8", "quantization")],
)
def test_an_unknown_wish_is_refused_by_name(
    checkpoint: Checkpoint, tmp_path: Path, export_format: str, quantization: str, field: str
) -> None:
    with pytest.raises(ConfigError, match=f"^`{field}` must be one of"):
        export_checkpoint(checkpoint, tmp_path / "out", export_format, quantization)


@pytest.mark.parametrize(
    ("export_format", "package"), [("ctranslate2", "ctranslate2"), ("marian", "transformers")]
)
def test_a_missing_package_is_named_with_the_extra_that_brings_it(
    checkpoint: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, export_format: str, package: str
) -> None:
    def absent(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr("model.checkpoint.exporting.export.import_module", absent)
    with pytest.raises(ConfigError, match=rf"\({package}: pip install --editable '\.\[export\]'\)"):
        export_checkpoint(checkpoint, tmp_path / "out", export_format)
    assert not (tmp_path / "out").exists()
