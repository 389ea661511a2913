"""CTranslate2's model folders (https://opennmt.net/CTranslate2/), read without its package. No torch.

A folder holds pieces, but nothing that cuts text: its users bring a SentencePiece model. What they put around
the pieces of a sentence follows from config.json and the language tags of the vocabulary.
"""

import dataclasses
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from model.checkpoint.card import Pair, every_pair
from model.checkpoint.exporting import DESCRIPTION
from model.checkpoint.importing.formats.ctranslate2_network import BinaryModel, Network
from model.checkpoint.importing.reader import (
    Fields,
    ForeignModel,
    ForeignText,
    Readme,
    card_name,
    chosen_pairs,
    language_tags,
    refusal,
)
from model.checkpoint.importing.vocabulary import (
    SpecialTokens,
    Vocabularies,
    arrange,
    kind_of_pieces,
    tokenizer_files,
)
from model.checkpoint.manifest import read_any_json, read_json, read_text
from model.errors import CheckpointError, TokenizerError
from model.text.languages import LANGUAGE_NAMES, known_code, language_code
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


def recognises(path: Path) -> bool:
    """Returns whether a folder, or the `model.bin` in it, is CTranslate2's."""
    folder = _folder(path)
    return (folder / MODEL).is_file() and bool(_vocabulary_files(folder))


def read(path: Path, pair: Pair | None) -> ForeignModel:
    """Reads a folder."""
    folder = _folder(path)
    return read_folder(folder, pair, folder)


def read_folder(folder: Path, pair: Pair | None, tokenizer_folder: Path) -> ForeignModel:
    """Reads a folder whose tokenizer may be in another one."""
    binary = BinaryModel(folder / MODEL)
    options, tokens = _options(folder, binary)
    network = Network(binary, _epsilon(options))
    pieces = read_pieces(folder)
    is_zero = network.starts_from_zero
    starts_with_language = tokens.start is None and not is_zero
    if starts_with_language:
        tokens = _start_from_pair(folder, tokens, pieces[1], pair)
    vocabularies = arrange(*pieces, tokens, starts_from_zero=is_zero, where=folder)
    text = _text(tokenizer_folder, vocabularies, tokens, options, pair, starts_with_language)
    config = network.config(vocabularies)
    files = [folder / MODEL, *_vocabulary_files(folder), *tokenizer_files(tokenizer_folder).values()]
    files += [folder / CONFIG] if (folder / CONFIG).is_file() else []
    return ForeignModel(
        config=config,
        tensors=network.tensors(config, vocabularies),
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


def _options(folder: Path, binary: BinaryModel) -> tuple[Fields, SpecialTokens]:
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
    code = known_code(pair[1], list(tags)) if pair else None
    if code is None:
        known = f"a piece, or the languages be given with --pair; it has {', '.join(tags) or 'no languages'}"
        raise refusal(folder / CONFIG, _START, known, None)
    return dataclasses.replace(tokens, start=tags[code])


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
    """Reads the vocabularies of both sides, the same object twice if the folder has one for both."""
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
    options: Fields,
    pair: Pair | None,
    starts_with_language: bool,
) -> ForeignText:
    """Returns tokenizer and languages of a folder.

    CTranslate2 itself puts BOS before a source and EOS after it, where the options say so. In mBART-25, the
    decoder's first input is the target language, and sources end with theirs.
    """
    models = tokenizer_files(folder)
    if (folder / DESCRIPTION).is_file() and models:
        return _own(folder, models, pair)
    tags, is_in_front = _tags(vocabularies)
    source_begin = [tokens.bos] if options.flag("add_source_bos") else []
    # Models whose decoder begins with another piece than <s> were trained with </s> at the end of the source.
    has_end = options.flag("add_source_eos") or tokens.start != tokens.bos
    source_end = [tokens.eos] if has_end else []
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
    known = [] if pair else _pairs_of_name(folder, tags)
    if tags and not is_in_front:
        known = every_pair(tags, tags)
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
