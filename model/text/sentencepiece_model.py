"""③ One SentencePiece model file, with its own ids or those of a vocabulary."""

from array import array
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

import sentencepiece

from model.errors import TokenizerError
from model.text.normalisation import clean, without_controls
from model.text.piece_model import SPACE, SPECIAL_NAMES, PieceModel, is_mark, with_specials


class SentencePieceModel(PieceModel):
    """Pieces and ids of one side, cut by a SentencePiece model; see PieceModel.

    Ids are the model's, or those of a vocabulary, in which a piece that the vocabulary lacks is unknown.
    """

    def __init__(
        self,
        path: Path,
        vocabulary: Sequence[str] | None = None,
        special_ids: Mapping[str, int] | None = None,
        *,
        tags: Collection[str] = (),
        is_foreign: bool = False,
    ) -> None:
        """Loads a model.

        Args:
            path: The model file.
            vocabulary: The piece of every id; None for the model's own ids.
            special_ids: Ids of SPECIAL_NAMES, also past the model's; those missing are the model's.
            tags: Pieces that select a language. No text produces them, unless they are words.
            is_foreign: Whether another project trained the model. Its language marks and sentinels are then
                no text either, and decoded text keeps its characters.

        Raises:
            TokenizerError: If the file is missing, is not a SentencePiece model or lacks a special id.
        """
        self.name = path.name
        self._processor = _read(path)
        everything = list(range(self._processor.get_piece_size()))
        own: list[str] = self._processor.id_to_piece(everything)
        controls = {own[id_] for id_, is_ in enumerate(self._processor.is_control(everything)) if is_}
        byte_pieces = {own[id_] for id_, is_ in enumerate(self._processor.is_byte(everything)) if is_}
        known = frozenset(own)
        specials = {**self._own_specials(own, vocabulary), **(special_ids or {})}
        pieces = with_specials(own if vocabulary is None else vocabulary, specials, self.name)
        if is_foreign:
            controls |= {tag for tag in tags if not tag.startswith(SPACE)}
            marks = {piece for piece in pieces if is_mark(piece, in_model=piece in known)}
            controls |= marks - byte_pieces
        super().__init__(
            path.name,
            pieces,
            specials,
            silent={id_ for id_, piece in enumerate(pieces) if piece in controls},
            byte_values={id_: int(each[3:5], 16) for id_, each in enumerate(pieces) if each in byte_pieces},
            clean=without_controls if is_foreign else clean,
        )
        self._to_id: array[int] | None = None
        if is_foreign or vocabulary is not None:
            ids = {piece: id_ for id_, piece in enumerate(pieces) if id_ not in self._silent}
            self._to_id = array("i", [ids.get(piece, self.unk_id) for piece in own])
            unknown = self._processor.unk_id()
            self._rare = frozenset({unknown, *(i for i, piece in enumerate(own) if piece in controls)})
            self._extra_ids = {piece: id_ for piece, id_ in ids.items() if piece not in known}

    def require_control(self, piece: str) -> None:
        """Refuses a piece that is no control symbol, as text could produce it.

        Raises:
            TokenizerError: If the model has no such control symbol.
        """
        id_: int = self._processor.piece_to_id(piece)
        if self._processor.id_to_piece(id_) != piece or not self._processor.is_control(id_):
            raise TokenizerError(f"{self.name} must have {piece!r} as a control symbol")

    def encode(self, text: str) -> list[int]:
        """Returns the ids of prepared text, without special ids."""
        ids: list[int] = self._processor.encode(text)
        return ids if self._to_id is None else self._mapped(text, ids)

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Encodes many texts on several threads."""
        ids: list[list[int]] = self._processor.encode(list(texts), num_threads=-1)
        return ids if self._to_id is None else list(map(self._mapped, texts, ids))

    def _mapped(self, text: str, own_ids: Sequence[int]) -> list[int]:
        """Returns the vocabulary's ids for the model's ids of a text."""
        to_id = cast("array[int]", self._to_id)
        if self._rare.isdisjoint(own_ids):
            return [to_id[own] for own in own_ids]
        pieces: list[str] = self._processor.encode(text, out_type=str)
        return [id_ for own, piece in zip(own_ids, pieces, strict=True) for id_ in self._spelt(own, piece)]

    def _spelt(self, own: int, piece: str) -> Iterator[int]:
        """Yields the ids of a piece, or of its characters if no text may produce the piece."""
        to_id = cast("array[int]", self._to_id)
        if own not in self._rare:
            yield to_id[own]
        elif own == self._processor.unk_id():
            yield self._extra_ids.get(piece, self.unk_id)
        else:
            characters: list[int] = self._processor.piece_to_id(list(piece))
            yield from (self.unk_id if each in self._rare else to_id[each] for each in characters)

    def _join(self, ids: list[int]) -> str:
        if self._to_id is None:
            text: str = self._processor.decode(ids)
            return text
        # A piece that the model lacks comes back as it is.
        return str(self._processor.decode(self.pieces(ids))).replace(SPACE, " ")

    def _scores(self, ids: list[int]) -> list[float]:
        scores: list[float] = self._processor.get_score(
            ids if self._to_id is None else self._processor.piece_to_id(self.pieces(ids))
        )
        return scores

    def _own_specials(self, own: Sequence[str], vocabulary: Sequence[str] | None) -> dict[str, int]:
        ids = {name: getattr(self._processor, f"{name}_id")() for name in SPECIAL_NAMES}
        known = {name: id_ for name, id_ in ids.items() if id_ >= 0}
        if vocabulary is None:
            return known
        places = {name: own[id_] for name, id_ in known.items()}
        return {name: vocabulary.index(piece) for name, piece in places.items() if piece in vocabulary}


def _read(path: Path) -> sentencepiece.SentencePieceProcessor:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise TokenizerError(f"cannot read {path}: {error.strerror}") from error
    try:
        if not content:
            raise RuntimeError("empty")  # SentencePiece itself accepts it
        return sentencepiece.SentencePieceProcessor(model_proto=content)
    except RuntimeError as error:
        raise TokenizerError(f"{path} is not a SentencePiece model") from error
