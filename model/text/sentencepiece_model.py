"""③ One SentencePiece model file, with its own special ids."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

import sentencepiece

from model.errors import TokenizerError
from model.text.normalisation import clean
from model.text.scripts import letters_of_scripts

SPECIAL_NAMES = ("pad", "bos", "eos", "unk")
_SPACE = "\u2581"
_ENOUGH_LETTERS = 20
"""Letters of a script that a vocabulary needs to know it; alphabets have 22 or more, formulas a few Greek."""


class SentencePieceModel:
    """Pieces and ids of one side; thread-safe, as nothing changes after loading.

    Attributes:
        name: Name of the file, for messages.
        size: Number of ids.
        pad_id: Id of padding.
        bos_id: Id of the beginning of a sentence.
        eos_id: Id of the end of a sentence.
        unk_id: Id of unknown pieces.
        characters: The characters that have a piece; all others are unknown, or bytes.
    """

    def __init__(self, path: Path) -> None:
        """Loads a model.

        Raises:
            TokenizerError: If the file is missing, is not a SentencePiece model or lacks a special id.
        """
        self.name = path.name
        self._processor = _read(path)
        self.size: int = self._processor.get_piece_size()
        self.pad_id, self.bos_id, self.eos_id, self.unk_id = (self._special(name) for name in SPECIAL_NAMES)
        everything = list(range(self.size))
        self._bytes = {
            id_: int(piece[3:5], 16)
            for id_, piece, is_byte in zip(
                everything, self._pieces(everything), self._processor.is_byte(everything), strict=True
            )
            if is_byte
        }
        self._byte_ids = {byte: id_ for id_, byte in self._bytes.items()}
        silent = self._processor.is_control(everything)
        self._silent = {id_ for id_ in everything if silent[id_]} | {self.unk_id}
        self._plain = frozenset(everything) - self._silent - self._bytes.keys()
        self._foreign = frozenset(self._bytes) | {self.unk_id}
        pieces = self._pieces(sorted(self._plain))
        self.characters = frozenset({" ", *(piece for piece in pieces if len(piece) == 1)})
        self._letters = letters_of_scripts(self.characters, at_least=_ENOUGH_LETTERS)
        self._words = self._plain - {self._processor.piece_to_id(_SPACE)}

    @property
    def special_ids(self) -> tuple[int, ...]:
        """The ids of SPECIAL_NAMES, in that order."""
        return self.pad_id, self.bos_id, self.eos_id, self.unk_id

    def control_id(self, piece: str) -> int:
        """Returns the id of a control symbol, a piece that no text can produce.

        Raises:
            TokenizerError: If the model has no such control symbol.
        """
        id_: int = self._processor.piece_to_id(piece)
        if self._processor.id_to_piece(id_) != piece or not self._processor.is_control(id_):
            raise TokenizerError(f"{self.name} must have {piece!r} as a control symbol")
        return id_

    def encode(self, text: str) -> list[int]:
        """Returns the ids of prepared text, without special ids."""
        ids: list[int] = self._processor.encode(text)
        return ids

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Encodes many texts on several threads."""
        ids: list[list[int]] = self._processor.encode(list(texts), num_threads=-1)
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text of ids without special ids, control symbols and broken bytes."""
        if not (is_plain := self._plain.issuperset(ids)):
            self._check(ids)
        text: str = self._processor.decode(list(ids if is_plain else self._readable(ids)))
        return clean(text).strip()

    def is_mostly_foreign(self, ids: Sequence[int]) -> bool:
        """Returns whether ids from `encode` stand for more foreign than known text.

        Foreign are unknown pieces, and characters in bytes whose script the vocabulary lacks. A rare letter
        of a known script counts like a known piece. White space and special ids do not count.
        """
        if self._foreign.isdisjoint(ids):
            return False
        text = bytes(self._bytes[id_] for id_ in ids if id_ in self._bytes).decode(errors="replace")
        num_own = len(self._letters.findall(text))
        num_foreign = len(text) - num_own + sum(id_ == self.unk_id for id_ in ids)
        return num_foreign > num_own + sum(map(self._words.__contains__, ids))

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Returns the piece of every id, special ones included."""
        self._check(ids)
        return self._pieces(ids)

    def scored_pieces(self) -> dict[int, tuple[str, float]]:
        """Returns the pieces of text with their scores, by id, without special pieces and bytes.

        The scores of a unigram model are logarithms of probabilities, those of a BPE model the order of
        merges.
        """
        ids = sorted(self._plain)
        scores: list[float] = self._processor.get_score(ids)
        return dict(zip(ids, zip(self._pieces(ids), scores, strict=True), strict=True))

    def _pieces(self, ids: Sequence[int]) -> list[str]:
        pieces: list[str] = self._processor.id_to_piece(list(ids))
        return pieces

    def _check(self, ids: Sequence[int]) -> None:
        for id_ in ids:
            if not 0 <= id_ < self.size:
                raise TokenizerError(f"{self.name} has ids from 0 to {self.size - 1}, not {id_}")

    def _readable(self, ids: Sequence[int]) -> Iterator[int]:
        """Yields the ids that stand for text; byte pieces only if together they are UTF-8."""
        spoken = (id_ for id_ in ids if id_ not in self._silent)
        for are_bytes, run in groupby(spoken, key=self._bytes.__contains__):
            if not are_bytes:
                yield from run
                continue
            text = bytes(self._bytes[id_] for id_ in run).decode("utf-8", errors="ignore")
            yield from (self._byte_ids[byte] for byte in text.encode())

    def _special(self, name: str) -> int:
        id_: int = getattr(self._processor, f"{name}_id")()
        if id_ < 0:
            raise TokenizerError(f"{self.name} must have a {name} id, but has none")
        return id_


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
