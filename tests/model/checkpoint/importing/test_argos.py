"""Argos packages translate as CTranslate2 does with their model, and broken ones are refused by name."""

import io
import json
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from model.checkpoint.folder import load_checkpoint
from model.checkpoint.importing.formats import recognise
from model.checkpoint.importing.formats.argos import read, recognises
from model.checkpoint.importing.importer import import_model
from model.errors import CheckpointError
from tests.model.checkpoint.importing.refusals import refused
from tests.model.checkpoint.importing.test_ctranslate2 import (
    KINDS,
    Kind,
    by_ctranslate2,
    pieces,
    text_model,
    translated,
    written,
)

__all__ = ["pieces", "text_model"]

Files = dict[str, bytes]
METADATA = {"from_code": "en", "to_code": "fr", "package_version": "1.9", "from_name": "English"}
PREFIXED = Kind(
    source=lambda text: ["<unk>", "<blank>", "<s>", "</s>", *text, "__fr__"], prefix=["__fr__"], name="model"
)


def package(kind: Kind, text: list[str], model: bytes, folder: Path, **metadata: object) -> Files:
    """The files of a package, by name."""
    written(kind, text, model, folder)
    (folder / kind.name).rename(folder / "package")
    files = {f"model/{path.name}": path.read_bytes() for path in (folder / "package").iterdir()}
    files["sentencepiece.model"] = files.pop("model/sentencepiece.model")
    files["metadata.json"] = json.dumps({**METADATA, **metadata}).encode()
    files["README.md"] = b"# English to French\n\nTrained on OPUS.\n\n## License\n\nLicense: CC BY 4.0.\n"
    files["stanza/en/default.zip"] = b"sentence splitting"
    return {f"translate-en_fr-1_9/{name}": content for name, content in files.items()}


def zipped(files: Mapping[str, bytes], path: Path) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


@pytest.mark.parametrize("kind", [KINDS["OpenNMT"], PREFIXED], ids=["one direction", "target prefix"])
@pytest.mark.parametrize("is_unpacked", [False, True], ids=["package", "folder"])
def test_a_package_translates_as_before(
    kind: Kind, is_unpacked: bool, text_model: bytes, pieces: list[str], tmp_path: Path
) -> None:
    prefix = {"target_prefix": kind.prefix[0]} if kind.prefix else {}
    path = zipped(package(kind, pieces, text_model, tmp_path, **prefix), tmp_path / "en_fr.argosmodel")
    if is_unpacked:
        zipfile.ZipFile(path).extractall(tmp_path)
        path = tmp_path / "translate-en_fr-1_9"
    found = recognise(path)
    assert found is not None
    assert found.name == "argos"
    import_model(path, tmp_path / "out")
    checkpoint = load_checkpoint(tmp_path / "out")
    assert (checkpoint.card.name, checkpoint.card.pairs) == ("argos-en-fr", (("en", "fr"),))
    assert read(path, None).licence == "CC BY 4.0"
    assert (checkpoint.card.decoding.beam_size, checkpoint.card.decoding.length_penalty) == (4, 0.2)
    assert translated(tmp_path / "out") == by_ctranslate2(tmp_path / "package", text_model, kind)


def test_codes_of_argos_are_those_of_the_standard(
    text_model: bytes, pieces: list[str], tmp_path: Path
) -> None:
    files = package(KINDS["OpenNMT"], pieces, text_model, tmp_path, from_code="pb", to_code="zt")
    import_model(path := zipped(files, tmp_path / "pb_zt.argosmodel"), tmp_path / "out")
    assert load_checkpoint(tmp_path / "out").card.pairs == (("pt-BR", "zh-Hant"),)
    with pytest.raises(CheckpointError, match="not translate en-fr of `--pair`, but from pt-BR into zh-Hant"):
        read(path, ("en", "fr"))


def without(name: str) -> Callable[[Files], Files]:
    return lambda files: {each: content for each, content in files.items() if not each.endswith(name)}


def with_metadata(content: bytes) -> Callable[[Files], Files]:
    return lambda files: {**files, "translate-en_fr-1_9/metadata.json": content}


BROKEN: Mapping[str, tuple[Callable[[Files], Files], str]] = {
    "no model": (without("model.bin"), "model/model.bin is missing"),
    "no vocabulary": (without("vocabulary.json"), "must hold shared_vocabulary.json"),
    "no tokenizer": (without("sentencepiece.model"), "holds no tokenizer"),
    "metadata that is a list": (with_metadata(b"[]"), "metadata.json must hold a JSON object"),
    "no languages": (with_metadata(b"{}"), "`from_code` must be a language code"),
    "a language that is none": (
        with_metadata(b'{"from_code": "../x"}'),
        "`from_code` must be a language code",
    ),
    "a prefix that is no text": (
        with_metadata(b'{"from_code": "en", "to_code": "fr", "target_prefix": [1]}'),
        "`target_prefix` must be a piece",
    ),
    "a prefix that is no piece": (
        with_metadata(b'{"from_code": "en", "to_code": "fr", "target_prefix": "__de__"}'),
        "`target_prefix` must be a piece of the target vocabulary",
    ),
    "expands without end": (
        lambda files: {**files, "translate-en_fr-1_9/model/model.bin": bytes(2**24)},
        "must be at most 100 times as large",
    ),
    "a file twice": (
        lambda files: {**files, "other/model/model.bin": b""},
        "`model/model.bin` must be there once",
    ),
}


@pytest.mark.parametrize(("damage", "message"), BROKEN.values(), ids=BROKEN)
def test_a_broken_package_is_refused_by_name(
    damage: Callable[[Files], Files], message: str, text_model: bytes, pieces: list[str], tmp_path: Path
) -> None:
    files = damage(package(KINDS["OpenNMT"], pieces, text_model, tmp_path))
    path = zipped(files, tmp_path / "en_fr.argosmodel")
    refused(path, message, format_name="argos")


def test_a_truncated_archive_is_refused(text_model: bytes, pieces: list[str], tmp_path: Path) -> None:
    path = zipped(package(KINDS["OpenNMT"], pieces, text_model, tmp_path), tmp_path / "en_fr.argosmodel")
    path.write_bytes(path.read_bytes()[:-300])
    refused(path, "not a readable zip", format_name="argos")


def test_nothing_is_written_outside_of_the_checkpoint(
    text_model: bytes, pieces: list[str], tmp_path: Path
) -> None:
    files = package(KINDS["OpenNMT"], pieces, text_model, tmp_path)
    evil = {"../../evil": b"x", "/tmp/evil-of-dragoman": b"x", "a/model/../../evil": b"x", "a/model/..": b"x"}
    path = zipped({**files, **evil}, tmp_path / "en_fr.argosmodel")
    before = set(tmp_path.parent.iterdir())
    import_model(path, tmp_path / "out")
    assert set(tmp_path.parent.iterdir()) == before
    assert not Path("/tmp/evil-of-dragoman").exists()


def test_other_files_are_no_packages(tmp_path: Path) -> None:
    content = io.BytesIO()
    zipfile.ZipFile(content, "w").close()
    for name, data in (("empty", b""), ("text", b"text"), ("zip", content.getvalue())):
        (tmp_path / name).write_bytes(data)
        assert not recognises(tmp_path / name)
    assert not recognises(tmp_path)


def test_older_packages_cut_words_by_pairs(text_model: bytes, pieces: list[str], tmp_path: Path) -> None:
    files = without("sentencepiece.model")(package(KINDS["OpenNMT"], pieces, text_model, tmp_path))
    merges = b"#version: 0.2\nt h\nth e</w>\n"
    path = zipped({**files, "translate-en_fr-1_9/bpe.model": merges}, tmp_path / "en_fr.argosmodel")
    settings = read(path, None).text.settings
    assert (settings.pieces, settings.moses_languages) == ("subword_nmt", ("en", "fr"))
