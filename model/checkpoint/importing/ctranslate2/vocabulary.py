"""ⓕ The vocabularies of a CTranslate2 folder, and ids for them on which both sides agree."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from model.checkpoint.importing.foreign import refusal
from model.errors import CheckpointError

SHARED, SOURCE, TARGET = "shared_vocabulary", "source_vocabulary", "target_vocabulary"
_SUFFIXES = (".json", ".txt")
_MOST_BYTES = 2**26
_PADDING = ("<pad>", "<blank>", "[PAD]", "<PAD>")
_START = "<start>"


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """The ids of one side, and the rows of the file that they take.

    Attributes:
        pieces: The piece of every id.
        listed: Pieces of CTranslate2's file, to which it may have added the unknown piece.
        known: Ids that CTranslate2 has too; those after them have rows of zeros, and no probability.
        swaps: Pairs of ids whose rows have changed places.
    """

    pieces: Sequence[str]
    listed: int
    known: int
    swaps: Sequence[tuple[int, int]] = ()

    @cached_property
    def rows(self) -> NDArray[np.intp]:
        """The row of each piece in an embedding or in the output projection; -1 if it has none."""
        rows = np.where(np.arange(len(self.pieces)) < self.known, np.arange(len(self.pieces)), -1)
        for left, right in self.swaps:
            rows[[left, right]] = rows[[right, left]]
        return rows


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
    pieces = read_json(path) if path.suffix == ".json" else _lines(_text(path))
    if not isinstance(pieces, list) or not any(pieces) or not all(isinstance(piece, str) for piece in pieces):
        raise CheckpointError(f"{path} must hold a list of pieces")
    return pieces


def read_json(path: Path) -> object:
    """Reads a JSON file of at most 64 MiB.

    Raises:
        CheckpointError: If the file is larger, or not JSON.
    """
    try:
        content: object = json.loads(_text(path))
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} cannot be read: {' '.join(str(error).split())}") from error
    return content


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise refusal(path, "size", f"at most {_MOST_BYTES} bytes", path.stat().st_size)
        return path.read_bytes().decode("utf-8")
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} cannot be read: {' '.join(str(error).split())}") from error


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
    sides = [lists[id(source)], lists[id(target)]]
    known = [len(side) for side in sides]
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
    swaps = _agree(sides, list(dict.fromkeys(roles.values())))
    ids = {role: sides[1].index(piece) for role, piece in roles.items()}
    return Vocabularies(
        source=Vocabulary(pieces=sides[0], listed=len(source), known=known[0], swaps=swaps[0]),
        target=Vocabulary(pieces=sides[1], listed=len(target), known=known[1], swaps=swaps[1]),
        special_ids=ids,
        suppressed=[] if tokens.unk in target else [ids["unk_id"]],
    )


def _agree(sides: Sequence[list[str]], tokens: Sequence[str]) -> tuple[list[tuple[int, int]], ...]:
    """Moves tokens in place until both sides have them at the same ids; returns the swaps of each side."""
    swaps: tuple[list[tuple[int, int]], ...] = ([], [])
    for token in tokens:
        for side in sides:
            if token not in side:
                side.append(token)
        places = [side.index(token) for side in sides]
        if places[0] == places[1]:
            continue
        moved = 0 if places[1] < len(sides[0]) else 1
        left, right = places[moved], places[1 - moved]
        side = sides[moved]
        side[left], side[right] = side[right], side[left]
        swaps[moved].append((left, right))
    return swaps
