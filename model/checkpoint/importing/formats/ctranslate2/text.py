"""ⓕ Text in a CTranslate2 folder: the pieces of both sides with common ids, and the tokenizer beside them.

A CTranslate2 folder holds pieces, but nothing that cuts text: its users bring a SentencePiece model. What
they put around the pieces of a sentence follows from config.json and the language tags of the vocabulary.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from model.checkpoint.card import Pair, every_pair
from model.checkpoint.exporting import DESCRIPTION
from model.checkpoint.importing.foreign import Fields, ForeignText, refusal
from model.checkpoint.importing.tensors import ForeignTensor
from model.checkpoint.importing.text import chosen_pairs, language_tags
from model.checkpoint.manifest import read_any_json, read_text
from model.errors import CheckpointError, TokenizerError
from model.text.languages import LANGUAGE_NAMES, language_code
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
SHARED, SOURCE, TARGET = "shared_vocabulary", "source_vocabulary", "target_vocabulary"
_SUFFIXES = (".json", ".txt")
_PADDING = ("<pad>", "<blank>", "[PAD]", "<PAD>")
_START = "<start>"
NEVER = -10000.0
"""The logit of a token that the model lacks: its probability is 0, also in float16."""


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """The ids of one side, and the rows of the file that they take.

    Attributes:
        pieces: The piece of every id.
        listed: Pieces of CTranslate2's file, to which it may have added the unknown piece.
        rows: The row of each id in an embedding or in the output projection; -1 if it has none, and the id no
            probability.
    """

    pieces: Sequence[str]
    listed: int
    rows: NDArray[np.intp]

    @property
    def known(self) -> int:
        """Ids that CTranslate2 has too."""
        return int((self.rows >= 0).sum())

    def rows_in(self, tensor: ForeignTensor | None) -> NDArray[np.intp]:
        """Returns the row of each id in a matrix or bias, -1 if it has none; None has all known ids."""
        available = self.known if tensor is None else tensor.shape[0]
        return np.where(self.rows < available, self.rows, -1)


@dataclass(frozen=True, kw_only=True)
class SpecialTokens:
    """The pieces with a role of their own, as config.json names them."""

    unk: str
    bos: str
    eos: str
    start: str | None


@dataclass(frozen=True, kw_only=True)
class Vocabularies:
    """The ids of both sides.

    Attributes:
        source: Source ids.
        target: Target ids.
        special_ids: `pad_id`, `bos_id`, `eos_id`, `unk_id` and `decoder_start_id`, the same on both sides.
        suppressed: Target ids that CTranslate2 lacks, and that are therefore never produced.
    """

    source: Vocabulary
    target: Vocabulary
    special_ids: Mapping[str, int]
    suppressed: Sequence[int]

    @property
    def lists(self) -> dict[str, Sequence[str]]:
        """The piece of every id, by our file names."""
        source, target = self.source.pieces, self.target.pieces
        is_shared = source is target
        return (
            {SHARED_VOCABULARY: source}
            if is_shared
            else {SOURCE_VOCABULARY: source, TARGET_VOCABULARY: target}
        )

    @property
    def token_ids(self) -> dict[str, int]:
        """The special ids that a tokenizer has."""
        return {role: self.special_ids[f"{role}_id"] for role in ("pad", "bos", "eos", "unk")}


def vocabulary_files(folder: Path) -> list[Path]:
    """Returns the vocabulary files of a folder: one, or those of source and target."""
    found = {
        name: folder / (name + suffix)
        for name in (SHARED, SOURCE, TARGET)
        for suffix in reversed(_SUFFIXES)
        if (folder / (name + suffix)).is_file()
    }
    if SHARED in found:
        return [found[SHARED]]
    return [found[name] for name in (SOURCE, TARGET) if name in found]


def read_pieces(folder: Path) -> tuple[list[str], list[str]]:
    """Reads the vocabularies of both sides, the same object twice if the folder has one for both.

    Raises:
        CheckpointError: If a file is missing, too large, or no list of pieces.
    """
    files = vocabulary_files(folder)
    if not files or (len(files) == 1 and not files[0].name.startswith(SHARED)):
        raise CheckpointError(f"{folder} must hold {SHARED}.json, or {SOURCE}.json and {TARGET}.json")
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


def arrange(
    source: Sequence[str],
    target: Sequence[str],
    tokens: SpecialTokens,
    *,
    starts_from_zero: bool,
    where: Path,
    pad: str | None = None,
) -> Vocabularies:
    """Gives the special tokens the same ids on both sides, and adds those that a side lacks.

    Ids stay those of CTranslate2, apart from pairs of ids that change places where the sides disagree.

    Args:
        source: Source pieces.
        target: Target pieces, the same object for a shared vocabulary.
        tokens: The special tokens.
        starts_from_zero: Whether the first decoder input is a zero vector. A new token gets it.
        where: The folder, for messages.
        pad: Padding; None is the first of the usual names that both sides have.

    Raises:
        CheckpointError: If the target lacks the end of a sentence or the decoder's first token.
    """
    for role, token in (("eos_token", tokens.eos), ("decoder_start_token", tokens.start)):
        if token is not None and token not in target and not starts_from_zero:
            raise refusal(where / "config.json", role, "a piece of the target vocabulary", token)
    lists = {id(side): [*side, *([] if tokens.unk in side else [tokens.unk])] for side in (source, target)}
    rows = {key: list(range(len(side))) for key, side in lists.items()}
    sides = [lists[id(source)], lists[id(target)]]
    pad = pad or next((piece for piece in _PADDING if all(piece in side for side in sides)), _PADDING[0])
    is_new = pad not in sides[1]
    start = (pad if is_new else _START) if starts_from_zero else tokens.start or tokens.bos
    bos = tokens.bos if all(tokens.bos in side for side in sides) else start
    roles = {
        "unk_id": tokens.unk,
        "eos_id": tokens.eos,
        "bos_id": bos,
        "decoder_start_id": start,
        "pad_id": pad,
    }
    arranged = [(lists[id(side)], rows[id(side)]) for side in (source, target)]
    _agree(arranged, list(dict.fromkeys(roles.values())))
    ids = {role: sides[1].index(piece) for role, piece in roles.items()}
    (sources, source_rows), (targets, target_rows) = arranged
    return Vocabularies(
        source=Vocabulary(pieces=sources, listed=len(source), rows=np.array(source_rows)),
        target=Vocabulary(pieces=targets, listed=len(target), rows=np.array(target_rows)),
        special_ids=ids,
        suppressed=[] if tokens.unk in target else [ids["unk_id"]],
    )


def _agree(sides: Sequence[tuple[list[str], list[int]]], tokens: Sequence[str]) -> None:
    """Moves tokens and their rows in place until both sides have them at the same ids."""
    for token in tokens:
        for pieces, rows in sides:
            if token not in pieces:
                pieces.append(token)
                rows.append(-1)
        left, right = (pieces.index(token) for pieces, _ in sides)
        moved, other = (left, right) if right < len(sides[0][0]) else (right, left)
        pieces, rows = sides[0 if right < len(sides[0][0]) else 1]
        pieces[moved], pieces[other] = pieces[other], pieces[moved]
        rows[moved], rows[other] = rows[other], rows[moved]


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
    return ForeignText(settings=settings, models=models, vocabularies=vocabularies.lists, pairs=pairs)


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
        return language_tags(in_front), True
    shared = set(target)
    found = [piece for piece in source if LANGUAGE_TAG.fullmatch(piece) and piece in shared]
    return language_tags(found if len(found) >= _FEWEST_TAGS else ()), False


def _pairs_of_name(folder: Path, tags: Mapping[str, str]) -> Sequence[Pair]:
    """Returns the directions that a folder's name says."""
    for source, target in _LANGUAGES_IN_NAME.findall(_OPUS.sub("", folder.resolve().name)):
        first, second = language_code(source), language_code(target)
        targets = [code for code in tags or [second] if code in LANGUAGE_NAMES]
        if first in LANGUAGE_NAMES and targets:
            return every_pair([first or ""], [code or "" for code in targets])
    return []
