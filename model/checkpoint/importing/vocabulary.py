"""The ids of a foreign vocabulary on both sides, and the models that cut text into its pieces. No torch."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import sentencepiece
from numpy.typing import NDArray

from model.checkpoint.importing.parameters import Parameter
from model.checkpoint.importing.reader import refusal
from model.checkpoint.importing.tensors import ForeignTensor, ForeignTensors, Part
from model.errors import CheckpointError
from model.text.tokenizer import (
    SHARED_FILE,
    SHARED_VOCABULARY,
    SOURCE_FILE,
    SOURCE_VOCABULARY,
    TARGET_FILE,
    TARGET_VOCABULARY,
    Pieces,
)

_SHARED_NAMES = (
    *("tokenizer.model", "sentencepiece.model", "spm.model", "sentencepiece.bpe.model", "spiece.model"),
    *("sp.model", "bpe.model"),
)
_SEPARATE_NAMES = (("source.model", "target.model"), ("source.spm", "target.spm"))
_PADDING = ("<pad>", "<blank>", "[PAD]", "<PAD>")
_START = "<start>"
NEVER = -10000.0
"""The logit of a token that the model lacks: its probability is 0, also in float16."""


class Vocabulary:
    """The ids of one side, and the rows of the file that they take.

    Args:
        listed: Pieces of the foreign file.
        unk: The unknown piece, which a library adds to a file without one.

    Attributes:
        pieces: The piece of every id.
        listed: Number of pieces in the file.
    """

    def __init__(self, listed: Sequence[str], unk: str) -> None:
        self.pieces = [*listed, *([] if unk in listed else [unk])]
        self.listed, self._rows = len(listed), list(range(len(self.pieces)))

    @property
    def rows(self) -> NDArray[np.intp]:
        """The row of each id in an embedding or in the output projection.

        It is -1 if the id has none, and no probability.
        """
        return np.array(self._rows)

    @property
    def known(self) -> int:
        """Number of ids that the foreign model has, too."""
        return int((self.rows >= 0).sum())

    def rows_in(self, tensor: ForeignTensor | None) -> NDArray[np.intp]:
        """Returns the row of each id in a matrix or bias, -1 if it has none; None has all known ids."""
        available = self.known if tensor is None else tensor.shape[0]
        return np.where(self.rows < available, self.rows, -1)

    def place(self, piece: str) -> int:
        """Returns the id of a piece, which is added if it is missing."""
        if piece not in self.pieces:
            self.pieces.append(piece)
            self._rows.append(-1)
        return self.pieces.index(piece)

    def exchange(self, one: int, other: int) -> None:
        """Lets two pieces change their ids; they keep their rows."""
        pieces, rows = self.pieces, self._rows
        pieces[one], pieces[other] = pieces[other], pieces[one]
        rows[one], rows[other] = rows[other], rows[one]


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
        suppressed: Target ids that the foreign model lacks, and that are therefore never produced.
    """

    source: Vocabulary
    target: Vocabulary
    special_ids: Mapping[str, int]
    suppressed: Sequence[int]

    @property
    def config_fields(self) -> dict[str, object]:
        """The fields of TransformerConfig that tell of ids."""
        sizes = {"source_vocab_size": len(self.source.pieces), "target_vocab_size": len(self.target.pieces)}
        return {**sizes, **self.special_ids}

    @property
    def has_new_targets(self) -> bool:
        """Whether a target id has no row in the file, so that the output needs a bias."""
        return self.target.known < len(self.target.pieces)

    @property
    def are_shared(self) -> bool:
        """Whether ids mean the same rows on both sides."""
        return np.array_equal(self.source.rows, self.target.rows)

    def part(self, parameter: Parameter, name: str, tensors: ForeignTensors) -> Part:
        """Returns the rows of a tensor that make up an embedding of tokens, or the output."""
        side = self.source if parameter.stack == "encoder" else self.target
        is_bias = parameter.kind == "bias"
        return Part(name, side.rows_in(tensors.get(name)), NEVER if is_bias else 0, is_optional=is_bias)

    @property
    def lists(self) -> dict[str, Sequence[str]]:
        """The piece of every id, by our file names."""
        return vocabulary_lists(self.source.pieces, self.target.pieces)

    @property
    def token_ids(self) -> dict[str, int]:
        """The special ids that a tokenizer has."""
        return {role: self.special_ids[f"{role}_id"] for role in ("pad", "bos", "eos", "unk")}


def vocabulary_lists(source: Sequence[str], target: Sequence[str]) -> dict[str, Sequence[str]]:
    """Returns the piece of every id by our file names: one list if both sides have the same."""
    if source == target:
        return {SHARED_VOCABULARY: source}
    return {SOURCE_VOCABULARY: source, TARGET_VOCABULARY: target}


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

    Ids stay those of the foreign model, apart from pairs of ids that change places where the sides disagree.

    Args:
        source: Source pieces.
        target: Target pieces, the same object for a shared vocabulary.
        tokens: The special tokens.
        starts_from_zero: Whether the first decoder input is a zero vector. A new token gets it.
        where: The folder, for messages.
        pad: Padding; None is the first of the usual names that both sides have.
    """
    for role, token in (("eos_token", tokens.eos), ("decoder_start_token", tokens.start)):
        if token is not None and token not in target and not starts_from_zero:
            raise refusal(where / "config.json", role, "a piece of the target vocabulary", token)
    left = Vocabulary(source, tokens.unk)
    right = left if target is source else Vocabulary(target, tokens.unk)
    sides = [left.pieces, right.pieces]
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
    for piece in dict.fromkeys(roles.values()):
        first, second = left.place(piece), right.place(piece)
        if second < len(left.pieces):
            left.exchange(first, second)
        else:
            right.exchange(second, first)
    ids = {role: right.place(piece) for role, piece in roles.items()}
    return Vocabularies(
        source=left,
        target=right,
        special_ids=ids,
        suppressed=[] if tokens.unk in target else [ids["unk_id"]],
    )


def tokenizer_files(folder: Path) -> dict[str, Path]:
    """Returns the model files that cut text, by our names; none if the folder has none."""
    for source, target in _SEPARATE_NAMES:
        if (folder / source).is_file() and (folder / target).is_file():
            return {SOURCE_FILE: folder / source, TARGET_FILE: folder / target}
    shared = next((folder / name for name in _SHARED_NAMES if (folder / name).is_file()), None)
    return {SHARED_FILE: shared} if shared else {}


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


def filled(pieces: Sequence[str], rows: int) -> list[str]:
    """Returns pieces, with placeholders for the ids up to the number of rows that have none."""
    return [*pieces, *(f"<unused{id_}>" for id_ in range(len(pieces), rows))]


def pieces_of(processor: sentencepiece.SentencePieceProcessor) -> list[str]:
    """Returns the pieces of a model by id."""
    return [processor.id_to_piece(id_) for id_ in range(processor.get_piece_size())]
