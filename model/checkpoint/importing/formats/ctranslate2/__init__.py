"""ⓕ CTranslate2's model folders (https://opennmt.net/CTranslate2/), read without its package. No torch."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

from model.checkpoint.card import Pair
from model.checkpoint.importing.foreign import Fields, ForeignModel, card_name, checksums, refusal
from model.checkpoint.importing.formats.ctranslate2.binary import BinaryModel
from model.checkpoint.importing.formats.ctranslate2.network import Network
from model.checkpoint.importing.formats.ctranslate2.text import (
    LANGUAGE_TAG,
    SpecialTokens,
    arrange,
    read_pieces,
    text_side,
    tokenizer_files,
    vocabulary_files,
)
from model.checkpoint.importing.text import Readme, language_tags
from model.checkpoint.manifest import read_json

MODEL, CONFIG = "model.bin", "config.json"
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
    return (folder / MODEL).is_file() and bool(vocabulary_files(folder))


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
    text = text_side(
        tokenizer_folder,
        vocabularies,
        tokens,
        adds_bos=options.flag("add_source_bos"),
        adds_eos=options.flag("add_source_eos"),
        starts_with_language=starts_with_language,
        pair=pair,
    )
    config = network.config(vocabularies.source, vocabularies.target, vocabularies.special_ids)
    files = [folder / MODEL, *vocabulary_files(folder), *tokenizer_files(tokenizer_folder).values()]
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
        origin={"files": checksums(files)},
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
    tags = language_tags(piece for piece in target if LANGUAGE_TAG.fullmatch(piece))
    if pair is None or pair[1] not in tags:
        known = f"a piece, or the languages be given with --pair; it has {', '.join(tags) or 'no languages'}"
        raise refusal(folder / CONFIG, _START, known, None)
    return dataclasses.replace(tokens, start=tags[pair[1]])
