"""ⓕ The tokenizer beside a CTranslate2 model, and the frame of its sentences.

A CTranslate2 folder holds pieces, but nothing that cuts text: its users bring a SentencePiece model. What
they put around the pieces of a sentence follows from config.json and the language tags of the vocabulary.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from model.checkpoint.card import Pair
from model.checkpoint.importing.foreign import ForeignText, read_object, refusal
from model.checkpoint.importing.formats.ctranslate2.vocabulary import SpecialTokens, Vocabularies
from model.checkpoint.importing.languages import all_pairs, chosen_pairs
from model.errors import CheckpointError, TokenizerError
from model.text.language_codes import is_language_code, language_code, language_codes
from model.text.languages import LANGUAGE_NAMES
from model.text.tokenizer import (
    SETTINGS_FILE,
    SHARED_FILE,
    SHARED_VOCABULARY,
    SOURCE_FILE,
    SOURCE_TAG,
    SOURCE_VOCABULARY,
    TARGET_FILE,
    TARGET_TAG,
    TARGET_VOCABULARY,
    Pieces,
    TokenizerSettings,
)

DESCRIPTION = "dragoman.json"
_SHARED_NAMES = (
    *("tokenizer.model", "sentencepiece.model", "spm.model", "sentencepiece.bpe.model", "spiece.model"),
    *("sp.model", "bpe.model"),
)
_SEPARATE_NAMES = (("source.model", "target.model"), ("source.spm", "target.spm"))
_IN_FRONT = re.compile(r">>\S+<<|<2[\w-]+>")
LANGUAGE_TAG = re.compile(r"[a-z]{3}_[A-Z][a-z]{3}|__[a-z]{2,3}__|[a-z]{2}_[A-Z]{2}")
"""The pieces of languages in NLLB, M2M100 and mBART."""
_FEWEST_TAGS = 2
_LANGUAGES_IN_NAME = re.compile(r"(?<![A-Za-z])(?=([a-z]{2,3})[-_]([A-Za-z]{2,})(?![A-Za-z]))")
_OPUS = re.compile(r"opus-mt-(tc-(base|big|bible-big)-)?")


def tokenizer_files(folder: Path) -> dict[str, Path]:
    """Returns the model files that cut text, by our names; none if the folder has none."""
    for source, target in _SEPARATE_NAMES:
        if (folder / source).is_file() and (folder / target).is_file():
            return {SOURCE_FILE: folder / source, TARGET_FILE: folder / target}
    shared = next((folder / name for name in _SHARED_NAMES if (folder / name).is_file()), None)
    return {SHARED_FILE: shared} if shared else {}


def text_side(
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
        all_pairs(tags, tags)
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
    return ForeignText(settings=settings, models=models, vocabularies=vocabularies.lists, pairs=pairs)


def _own(folder: Path, models: Mapping[str, Path], pair: Pair | None) -> ForeignText:
    """Returns tokenizer and languages of a folder that `dragoman export` has written."""
    try:
        settings = TokenizerSettings.load(folder)
    except TokenizerError as error:
        raise CheckpointError(f"{folder / SETTINGS_FILE}: {error}") from error
    stored = read_object(folder / DESCRIPTION).get("pairs")
    if not isinstance(stored, list) or not all(_is_pair(each) for each in stored):
        raise refusal(folder / DESCRIPTION, "pairs", "a list of pairs of languages", stored)
    pairs = chosen_pairs(folder, [(source, target) for source, target in stored], pair)
    vocabularies = {
        name: json.loads((folder / name).read_text(encoding="utf-8"))
        for name in (SHARED_VOCABULARY, SOURCE_VOCABULARY, TARGET_VOCABULARY)
        if (folder / name).is_file()
    }
    return ForeignText(settings=settings, models=models, vocabularies=vocabularies, pairs=pairs)


def _is_pair(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(is_language_code, value))


def kind_of_pieces(folder: Path, models: Mapping[str, Path], pieces: Sequence[str]) -> Pieces:
    """Returns what cuts text into pieces."""
    if models:
        with next(iter(models.values())).open("rb") as file:
            head = file.read(9)
        return "subword_nmt" if head.startswith(b"#version:") else "sentencepiece"
    text = [piece for piece in pieces if not re.fullmatch(r"<[^<>]+>", piece)]
    if all(len(piece) == 1 for piece in text):
        return "characters"
    known = ", ".join([*_SHARED_NAMES, *(" and ".join(names) for names in _SEPARATE_NAMES)])
    raise CheckpointError(f"{folder} holds no tokenizer: put the model's beside model.bin, as {known}")


def _tags(vocabularies: Vocabularies) -> tuple[dict[str, str], bool]:
    """Returns the piece of each language, and whether the target's stands in front of the source."""
    source, target = vocabularies.source.pieces, vocabularies.target.pieces
    in_front = [piece for piece in source if _IN_FRONT.fullmatch(piece)]
    if in_front:
        return {code: piece for piece, code in language_codes(in_front).items()}, True
    shared = set(target)
    found = [piece for piece in source if LANGUAGE_TAG.fullmatch(piece) and piece in shared]
    codes = language_codes(found) if len(found) >= _FEWEST_TAGS else {}
    return {code: piece for piece, code in codes.items()}, False


def _pairs_of_name(folder: Path, tags: Mapping[str, str]) -> Sequence[Pair]:
    """Returns the directions that a folder's name says."""
    for source, target in _LANGUAGES_IN_NAME.findall(_OPUS.sub("", folder.resolve().name)):
        first, second = language_code(source), language_code(target)
        targets = [code for code in tags or [second] if code in LANGUAGE_NAMES]
        if first in LANGUAGE_NAMES and targets:
            return all_pairs([first or ""], [code or "" for code in targets])
    return []
