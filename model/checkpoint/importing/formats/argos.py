"""Packages of Argos Translate and LibreTranslate: `.argosmodel` files, or folders unpacked from them.

A package is a zip of one folder: `metadata.json`, a CTranslate2 model in `model/`, `sentencepiece.model` or
`bpe.model`, a README, and models for splitting sentences, which we do not need.
"""

import re
import shutil
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from model.checkpoint.card import Pair
from model.checkpoint.importing.formats.ctranslate2_folder import read_folder
from model.checkpoint.importing.reader import ForeignModel, Readme, chosen_pairs, refusal
from model.checkpoint.importing.tensors import TemporaryFolder
from model.checkpoint.manifest import read_json
from model.errors import CheckpointError
from model.text.languages import is_language_code
from model.text.tokenizer import SOURCE_TAG, TARGET_TAG

METADATA, MODEL = "metadata.json", "model"
_TOKENIZERS = ("sentencepiece.model", "bpe.model")
_README = "README.md"
_WANTED = re.compile(rf"([^/]+)/({METADATA}|{_README}|{'|'.join(_TOKENIZERS)}|{MODEL}/[^/.][^/]*)")
_CODES = {"zt": "zh-Hant", "pb": "pt-BR"}
# As `argostranslate.translate` calls CTranslate2.
_SEARCH: Mapping[str, object] = {"beam_size": 4, "length_penalty": 0.2}
_VERSION = re.compile(r"[0-9][0-9.]{0,11}")
_MOST_FILES = 10_000
_MOST_EXPANSION = 100
_FREE_BYTES = 2**20


def recognises(path: Path) -> bool:
    """Returns whether a file or folder is a package."""
    if path.is_dir():
        return (path / METADATA).is_file() and (path / MODEL / "model.bin").is_file()
    if path.suffix == ".argosmodel":
        return path.is_file()
    if not path.is_file() or not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    return any(name.count("/") == 1 and name.endswith(f"/{METADATA}") for name in names)


def read(path: Path, pair: Pair | None) -> ForeignModel:
    """Reads a package."""
    if path.is_dir():
        return _read_folder(path, pair)
    unpacked = TemporaryFolder()
    try:
        _unpack(path, unpacked.path)
        model = _read_folder(unpacked.path, pair)
    except CheckpointError as error:
        raise CheckpointError(str(error).replace(str(unpacked.path), str(path))) from error
    return replace(model, files=[path], owner=unpacked)


def _read_folder(folder: Path, pair: Pair | None) -> ForeignModel:
    metadata = read_json(folder / METADATA)
    is_named = pair is None or "from_code" in metadata
    known = [(_code(folder, metadata, "from_code"), _code(folder, metadata, "to_code"))] if is_named else []
    (pair,) = chosen_pairs(folder, known, pair)
    prefix = metadata.get("target_prefix") or ""
    if not isinstance(prefix, str):
        raise refusal(folder / METADATA, "target_prefix", "a piece", prefix)
    model = read_folder(folder / MODEL, pair, folder)
    text = model.text
    if prefix and prefix not in list(text.vocabularies.values())[-1]:
        raise refusal(folder / METADATA, "target_prefix", "a piece of the target vocabulary", prefix)
    # Argos says its languages by this prefix alone, whatever pieces the vocabulary has.
    source_begin = [piece for piece in text.settings.source_begin if piece not in (SOURCE_TAG, TARGET_TAG)]
    target_begin = [prefix] if prefix else []
    settings = replace(text.settings, tags={}, source_begin=source_begin, target_begin=target_begin)
    version = str(metadata.get("package_version", ""))
    return replace(
        model,
        text=replace(text, settings=settings),
        name=f"argos-{pair[0]}-{pair[1]}",
        licence=Readme.read(folder).licence,
        decoding={**model.decoding, **_SEARCH},
        origin={**model.origin, **({"revision": version} if _VERSION.fullmatch(version) else {})},
    )


def _code(folder: Path, metadata: Mapping[str, object], name: str) -> str:
    code = metadata.get(name)
    known = _CODES.get(code, code) if isinstance(code, str) else code
    if not isinstance(known, str) or not is_language_code(known):
        raise refusal(folder / METADATA, name, "a language code", code)
    return known


def _unpack(path: Path, folder: Path) -> None:
    """Writes the files that we need, and no others, into a folder."""
    (folder / MODEL).mkdir()
    seen = {}
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            if len(entries) > _MOST_FILES:
                raise refusal(path, "number of files", f"at most {_MOST_FILES}", len(entries))
            for entry in entries:
                found = _WANTED.fullmatch(entry.filename)
                if not found or entry.is_dir():
                    continue
                if found[2] in seen:
                    raise refusal(path, found[2], "there once", f"also {entry.filename}")
                seen[found[2]] = entry
                if entry.file_size > _MOST_EXPANSION * entry.compress_size + _FREE_BYTES:
                    most = f"at most {_MOST_EXPANSION} times as large as in the archive"
                    raise refusal(path, entry.filename, most, entry.file_size)
                with archive.open(entry) as source, (folder / found[2]).open("wb") as target:
                    shutil.copyfileobj(source, target)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, OSError, EOFError) as error:
        raise CheckpointError(f"{path} is not a readable zip: {error}") from error
    for name in (METADATA, f"{MODEL}/model.bin"):
        if name not in seen:
            raise CheckpointError(f"{path} is not an Argos package: {name} is missing")
