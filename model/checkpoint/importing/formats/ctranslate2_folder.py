"""CTranslate2's model folders (https://opennmt.net/CTranslate2/), read without its package. No torch.

A folder holds pieces, but nothing that cuts text: its users bring a SentencePiece model. What they put around
the pieces of a sentence follows from config.json and the language tags of the vocabulary.

`model.bin` is an index of variables, each of them read when it is needed. It holds, in little-endian order:
the version of the format, name and revision of the specification, the variables (name, shape, type, numbers),
and aliases, by which shared variables are stored once.
"""

import dataclasses
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from model.checkpoint.card import Pair, every_pair
from model.checkpoint.exporting import DESCRIPTION
from model.checkpoint.importing.formats.ctranslate2_network import Network
from model.checkpoint.importing.languages import Readme, chosen_pairs, language_tags
from model.checkpoint.importing.reader import (
    Fields,
    ForeignModel,
    ForeignText,
    card_name,
    refusal,
)
from model.checkpoint.importing.tensors import TYPES, BinaryReader, ForeignTensor, ForeignTensors, Part
from model.checkpoint.importing.vocabulary import (
    SpecialTokens,
    Vocabularies,
    arrange,
    kind_of_pieces,
    tokenizer_files,
)
from model.checkpoint.manifest import read_any_json, read_errors, read_json, read_text
from model.checkpoint.weights import StoredTensor
from model.errors import CheckpointError, TokenizerError
from model.text.languages import LANGUAGE_NAMES, language_code
from model.text.tokenizer import (
    SETTINGS_FILE,
    SHARED_VOCABULARY,
    SOURCE_TAG,
    SOURCE_VOCABULARY,
    TARGET_TAG,
    TARGET_VOCABULARY,
    TokenizerSettings,
)

MODEL, CONFIG = "model.bin", "config.json"
_SHARED, _SOURCE, _TARGET = "shared_vocabulary", "source_vocabulary", "target_vocabulary"
_IN_FRONT = re.compile(r">>\S+<<|<2[\w-]+>")
_LANGUAGE_TAG = re.compile(r"[a-z]{3}_[A-Z][a-z]{3}|__[a-z]{2,3}__|[a-z]{2}_[A-Z]{2}")
"""The pieces of languages in NLLB, M2M100 and mBART."""
_FEWEST_TAGS = 2
_LANGUAGES_IN_NAME = re.compile(r"(?<![A-Za-z])(?=([a-z]{2,3})[-_]([A-Za-z]{2,})(?![A-Za-z]))")
_OPUS = re.compile(r"opus-mt-(tc-(base|big|bible-big)-)?")
_MOST_SOURCE_TOKENS = 1024
_MOST_TARGET_TOKENS = 256
_SEARCH: Mapping[str, object] = {
    "strategy": "beam",
    "beam_size": 2,
    "length_penalty": 1.0,
    "stop": "count",
    "min_length": 2,
}
"""The search that CTranslate2 makes by default."""
_SINCE_VERSION_6 = 6
_START = "decoder_start_token"
NEWEST_VERSION = 6

_TYPES_BY_SIZE = {4: "float32", 2: "int16", 1: "int8"}
_MOST_DIMENSIONS = 8
_LEAST_VARIABLE_BYTES = 8
_MOST_TEXT_BYTES = 1000
_INT16_SCALE_OF_OLD_FILES = np.float32(1000)


def recognises(path: Path) -> bool:
    """Returns whether a folder, or the `model.bin` in it, is CTranslate2's."""
    folder = _folder(path)
    return (folder / MODEL).is_file() and bool(_vocabulary_files(folder))


def read(path: Path, pair: Pair | None) -> ForeignModel:
    """Reads a folder.

    Raises:
        CheckpointError: If it is broken or cannot be computed; the message names file and field.
    """
    folder = _folder(path)
    return read_folder(folder, pair, folder)


def read_folder(folder: Path, pair: Pair | None, tokenizer_folder: Path) -> ForeignModel:
    """Reads a folder whose tokenizer may be in another one.

    Raises:
        CheckpointError: If it is broken or cannot be computed.
    """
    binary = BinaryModel(folder / MODEL)
    options, tokens = _options(folder, binary)
    network = Network(binary, _epsilon(options))
    pieces = read_pieces(folder)
    is_zero = network.starts_from_zero
    starts_with_language = tokens.start is None and not is_zero
    if starts_with_language:
        tokens = _start_from_pair(folder, tokens, pieces[1], pair)
    vocabularies = arrange(*pieces, tokens, starts_from_zero=is_zero, where=folder)
    text = _text(
        tokenizer_folder,
        vocabularies,
        tokens,
        adds_bos=options.flag("add_source_bos"),
        adds_eos=options.flag("add_source_eos"),
        starts_with_language=starts_with_language,
        pair=pair,
    )
    config = network.config(vocabularies.source, vocabularies.target, vocabularies.special_ids)
    files = [folder / MODEL, *_vocabulary_files(folder), *tokenizer_files(tokenizer_folder).values()]
    files += [folder / CONFIG] if (folder / CONFIG).is_file() else []
    return ForeignModel(
        config=config,
        tensors=network.tensors(config, vocabularies.source, vocabularies.target),
        text=text,
        name=card_name(folder.resolve().name, default="ctranslate2"),
        max_source_length=min(config.max_positions, _MOST_SOURCE_TOKENS),
        max_target_length=min(config.max_positions, _MOST_TARGET_TOKENS),
        decoding={**_SEARCH, "suppress_ids": list(vocabularies.suppressed)},
        licence=Readme.read(tokenizer_folder).licence,
        files=files,
    )


def _folder(path: Path) -> Path:
    return path.parent if path.name == MODEL and path.is_file() else path


def _options(folder: Path, binary: "BinaryModel") -> tuple[Fields, SpecialTokens]:
    """Returns the options of config.json, which before version 6 were variables of `model.bin`."""
    roles = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
    if binary.version < _SINCE_VERSION_6:
        values: dict[str, object] = {name: binary.text(name) for name in roles if name in binary}
        values |= {
            f"add_source_{end}": bool(binary.number(f"with_source_{end}", 0)) for end in ("bos", "eos")
        }
        start = "bos_token" if binary.number("with_target_bos", 1) else "eos_token"
        is_given = bool(binary.number("user_decoder_start_tokens", 0))
    else:
        values = read_json(folder / CONFIG)
        start = _START if _START in values else "bos_token"
        is_given = values.get(start, "") is None
    options = Fields(folder / CONFIG, values, {**roles, "add_source_bos": False, "add_source_eos": False})
    if options.get("quantization_type"):
        raise options.refusal("quantization_type", "absent: low-bit weights are not read")
    unk, bos, eos = map(options.text, roles)
    return options, SpecialTokens(unk=unk, bos=bos, eos=eos, start=None if is_given else options.text(start))


def _epsilon(options: Fields) -> float | None:
    if options.get(name := "layer_norm_epsilon") is None:
        return None
    if not 0 < (value := options.number(name)) < 1:
        raise options.refusal(name, "above 0 and below 1")
    return value


def _start_from_pair(
    folder: Path, tokens: SpecialTokens, target: Sequence[str], pair: Pair | None
) -> SpecialTokens:
    """Returns the tokens of a model whose translations begin with the piece of their language."""
    tags = language_tags(piece for piece in target if _LANGUAGE_TAG.fullmatch(piece))
    if pair is None or pair[1] not in tags:
        known = f"a piece, or the languages be given with --pair; it has {', '.join(tags) or 'no languages'}"
        raise refusal(folder / CONFIG, _START, known, None)
    return dataclasses.replace(tokens, start=tags[pair[1]])


def _vocabulary_files(folder: Path) -> list[Path]:
    """Returns the vocabulary files of a folder: one, or those of source and target."""
    found = {
        name: folder / (name + suffix)
        for name in (_SHARED, _SOURCE, _TARGET)
        for suffix in (".txt", ".json")
        if (folder / (name + suffix)).is_file()
    }
    if _SHARED in found:
        return [found[_SHARED]]
    return [found[name] for name in (_SOURCE, _TARGET) if name in found]


def read_pieces(folder: Path) -> tuple[list[str], list[str]]:
    """Reads the vocabularies of both sides, the same object twice if the folder has one for both.

    Raises:
        CheckpointError: If a file is missing, too large, or no list of pieces.
    """
    files = _vocabulary_files(folder)
    if not files or (len(files) == 1 and not files[0].name.startswith(_SHARED)):
        raise CheckpointError(f"{folder} must hold {_SHARED}.json, or {_SOURCE}.json and {_TARGET}.json")
    pieces = [_read(path) for path in files]
    return pieces[0], pieces[-1]


def _read(path: Path) -> list[str]:
    pieces = read_any_json(path) if path.suffix == ".json" else _lines(read_text(path))
    if not isinstance(pieces, list) or not any(pieces) or not all(isinstance(piece, str) for piece in pieces):
        raise CheckpointError(f"{path} must hold a list of pieces")
    return pieces


def _lines(text: str) -> list[str]:
    lines = text.removesuffix("\n").split("\n")
    has_carriage_returns = all(line.endswith("\r") for line in lines)
    return [line[:-1] for line in lines] if has_carriage_returns else lines


def _text(
    folder: Path,
    vocabularies: Vocabularies,
    tokens: SpecialTokens,
    *,
    adds_bos: bool,
    adds_eos: bool,
    starts_with_language: bool,
    pair: Pair | None,
) -> ForeignText:
    """Returns tokenizer and languages of a folder.

    Args:
        folder: The folder with the tokenizer.
        vocabularies: The pieces of both sides.
        tokens: The special pieces.
        adds_bos: Whether CTranslate2 itself puts the beginning of a sentence before a source.
        adds_eos: Whether it puts the end of a sentence after one.
        starts_with_language: Whether the decoder's first input is the target language, as in mBART-25, whose
            sources end with their language.
        pair: The languages, if the caller says.

    Raises:
        CheckpointError: If the folder has no tokenizer that we can use, or does not tell its languages.
    """
    models = tokenizer_files(folder)
    if (folder / DESCRIPTION).is_file() and models:
        return _own(folder, models, pair)
    tags, is_in_front = _tags(vocabularies)
    source_begin = [tokens.bos] if adds_bos else []
    # Models whose decoder begins with another piece than <s> were trained with </s> at the end of the source.
    source_end = [tokens.eos] if adds_eos or tokens.start != tokens.bos else []
    target_begin = []
    if is_in_front:
        source_begin.append(TARGET_TAG)
    elif starts_with_language:
        source_end.append(SOURCE_TAG)
    elif tags:
        source_begin.append(SOURCE_TAG)
        target_begin.append(TARGET_TAG)
    kind = kind_of_pieces(folder, models, vocabularies.source.pieces)
    # The name of a folder is a guess, which the user's choice overrules.
    known = (
        every_pair(tags, tags)
        if tags and not is_in_front
        else _pairs_of_name(folder, tags)
        if not pair
        else []
    )
    pairs = chosen_pairs(folder, known, pair, tags)
    settings = TokenizerSettings(
        tags=tags,
        special_ids=vocabularies.token_ids,
        source_begin=source_begin,
        source_end=source_end,
        target_begin=target_begin,
        prepare="none",
        pieces=kind,
        # Such models of OPUS-MT, also those in Argos packages, learnt words as Moses finds them.
        moses_languages=pairs[0] if kind == "subword_nmt" and len(pairs) == 1 else (),
    )
    return ForeignText(
        settings=settings,
        models=models,
        vocabularies=vocabularies.lists,
        pairs=pairs,
    )


def _own(folder: Path, models: Mapping[str, Path], pair: Pair | None) -> ForeignText:
    """Returns tokenizer and languages of a folder that `dragoman export` has written."""
    try:
        settings = TokenizerSettings.load(folder)
    except TokenizerError as error:
        raise CheckpointError(f"{folder / SETTINGS_FILE}: {error}") from error
    pairs = chosen_pairs(folder, Fields.read(folder / DESCRIPTION, {}).pairs("pairs"), pair)
    vocabularies = {
        name: json.loads((folder / name).read_text(encoding="utf-8"))
        for name in (SHARED_VOCABULARY, SOURCE_VOCABULARY, TARGET_VOCABULARY)
        if (folder / name).is_file()
    }
    return ForeignText(settings=settings, models=models, vocabularies=vocabularies, pairs=pairs)


def _tags(vocabularies: Vocabularies) -> tuple[dict[str, str], bool]:
    """Returns the piece of each language, and whether the target's stands in front of the source."""
    source, target = vocabularies.source.pieces, vocabularies.target.pieces
    in_front = [piece for piece in source if _IN_FRONT.fullmatch(piece)]
    if in_front:
        return language_tags(in_front), True
    shared = set(target)
    found = [piece for piece in source if _LANGUAGE_TAG.fullmatch(piece) and piece in shared]
    return language_tags(found if len(found) >= _FEWEST_TAGS else ()), False


def _pairs_of_name(folder: Path, tags: Mapping[str, str]) -> Sequence[Pair]:
    """Returns the directions that a folder's name says."""
    for source, target in _LANGUAGES_IN_NAME.findall(_OPUS.sub("", folder.resolve().name)):
        first, second = language_code(source), language_code(target)
        targets = [code for code in tags or [second] if code in LANGUAGE_NAMES]
        if first in LANGUAGE_NAMES and targets:
            return every_pair([first or ""], [code or "" for code in targets])
    return []


class BinaryModel(ForeignTensors):
    """An opened `model.bin`, whose index has been checked against the size of the file.

    Attributes:
        path: The file.
        tensors: Variables by name. An alias is a name of the same object.
        version: Version of the format, 1 to 6.
        specification: Name of the network's specification; empty in version 1.
        revision: Revision of the specification.
    """

    def __init__(self, path: Path) -> None:
        """Reads the index.

        Raises:
            CheckpointError: If the file is not a complete `model.bin` of a known version.
        """
        super().__init__(path, {})
        with read_errors(path), path.open("rb") as file:
            self._read_index(BinaryReader(path, file))

    def _read_index(self, reader: BinaryReader) -> None:
        self.version = reader.integer(4, "version")
        if not 1 <= self.version <= NEWEST_VERSION:
            raise refusal(self.path, "version", f"1 to {NEWEST_VERSION}", self.version)
        self.specification = _name(reader, "specification") if self.version >= 2 else ""
        self.revision = reader.integer(4, "revision") if self.version >= 2 else 1
        count = reader.integer(4, "number of variables")
        if count * _LEAST_VARIABLE_BYTES > reader.size:
            raise refusal(self.path, "number of variables", "possible in a file of this size", count)
        for _ in range(count):
            self._add(_name(reader, "name of a variable"), reader)
        for _ in range(reader.integer(4, "number of aliases") if self.version >= 3 else 0):
            self._add_alias(_name(reader, "alias"), _name(reader, "name behind an alias"))
        if reader.position != reader.size:
            raise refusal(self.path, "size of the file", f"{reader.position} bytes", reader.size)

    def _add(self, name: str, reader: BinaryReader) -> None:
        self._require_new(name)
        rank = reader.integer(1, name)
        if rank > _MOST_DIMENSIONS:
            raise refusal(self.path, name, f"of at most {_MOST_DIMENSIONS} dimensions", rank)
        shape = tuple(reader.integer(4, name) for _ in range(rank))
        kind = reader.integer(1, name)
        types = dict(enumerate(TYPES)) if self.version >= 4 else _TYPES_BY_SIZE
        if kind not in types:
            raise refusal(self.path, name, f"of a type with a number in {sorted(types)}", kind)
        dtype = types[kind]
        size = reader.integer(4, name) * (1 if self.version >= 4 else kind)
        if size != math.prod(shape) * TYPES[dtype].itemsize:
            raise refusal(self.path, name, f"of as many bytes as {dtype} numbers of shape {shape} have", size)
        self.tensors[name] = ForeignTensor(self.path, reader.skip(size, name), shape, dtype)

    def _add_alias(self, alias: str, name: str) -> None:
        self._require_new(alias)
        if name not in self.tensors:
            raise refusal(self.path, alias, "an alias of a variable or alias before it", name)
        for suffix in ("", "_scale", "_zero"):
            if name + suffix in self.tensors:
                self.tensors.setdefault(alias + suffix, self.tensors[name + suffix])

    def _require_new(self, name: str) -> None:
        if name in self.tensors:
            raise refusal(self.path, name, "there once", "twice")

    def rename(self, name_of: Callable[[str], str]) -> None:
        """Gives each variable the name that a function makes of its present one."""
        before = self.tensors
        self.tensors = {}
        for name, variable in before.items():
            self._require_new(name_of(name))
            self.tensors[name_of(name)] = variable

    def text(self, name: str) -> str:
        """Returns a variable whose bytes are text.

        Raises:
            CheckpointError: If it is not UTF-8 in bytes.
        """
        variable = self[name]
        if variable.dtype != "int8" or math.prod(variable.shape) > _MOST_TEXT_BYTES:
            raise refusal(self.path, name, f"at most {_MOST_TEXT_BYTES} bytes of text", list(variable.shape))
        try:
            return variable.numbers().tobytes().decode("utf-8")
        except UnicodeDecodeError as error:
            raise refusal(self.path, name, "UTF-8", str(error)) from error

    def stored(self, name: str, index: NDArray[np.intp], filler: float) -> StoredTensor:
        """Reads rows of a variable: int8 with the scale of each row, int16 as float32, others as they are.

        Raises:
            CheckpointError: If the variable or the scale of integers is missing, or of a wrong type.
        """
        variable = self[name]
        if variable.dtype == "int32":
            raise refusal(self.path, name, "floating point, int8 or int16", variable.dtype)
        if name + "_zero" in self:
            raise refusal(self.path, name + "_zero", "absent: low-bit weights are not read", "present")
        if variable.dtype not in ("int8", "int16"):
            return super().stored(name, index, filler)
        values, scale = (
            self.gathered(name, index, filler),
            Part(name, index).of(self._scale(name, variable), 1),
        )
        if variable.dtype == "int8":
            return StoredTensor(values, "int8", scale)
        return StoredTensor(values * scale.reshape(-1, *[1] * (values.ndim - 1)), "float32")

    def same(self, one: str, other: str) -> bool:
        """See ForeignTensors; the scales of integers must be equal, too."""
        scales = [name + "_scale" for name in (one, other) if name + "_scale" in self]
        return super().same(one, other) and (len(scales) != 1) and (not scales or super().same(*scales))

    def _scale(self, name: str, variable: ForeignTensor) -> NDArray[np.float32]:
        """Returns the factor of each row."""
        known = self.tensors.get(name + "_scale")
        if known is None and variable.dtype == "int8":
            raise CheckpointError(f"{self.path}: variable `{name}_scale` is missing")
        count = variable.shape[0] if variable.shape else 1
        divisor = np.full((), _INT16_SCALE_OF_OLD_FILES)
        if known is not None:
            if known.dtype != "float32" or known.shape not in ((), (1,), (count,)):
                raise refusal(self.path, name + "_scale", f"1 or {count} float32 numbers", list(known.shape))
            divisor = known.numbers()
        if not (np.isfinite(divisor).all() and (divisor > 0).all()):
            raise refusal(self.path, name + "_scale", "positive and finite", float(divisor.min()))
        return np.broadcast_to(1 / divisor, count)


def _name(reader: BinaryReader, what: str) -> str:
    """Reads a length of two bytes, then text that ends with a zero byte."""
    content = reader.read(reader.integer(2, what), what)
    if not content or content[-1]:
        raise refusal(reader.path, what, "text that ends with a zero byte", content)
    try:
        return content[:-1].decode("utf-8")
    except UnicodeDecodeError:
        raise refusal(reader.path, what, "UTF-8", content) from None
