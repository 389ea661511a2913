"""③ Pieces and ids of one side, however its text is cut into pieces."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import groupby

from model.errors import TokenizerError
from model.text.normalisation import clean
from model.text.scripts import UNSPACED, letters_of_scripts

SPECIAL_NAMES = ("pad", "bos", "eos", "unk")
SPACE = "\u2581"
_SPECIAL_PIECES = {"pad": "<pad>", "bos": "<s>", "eos": "</s>", "unk": "<unk>"}
_ENOUGH_LETTERS = 20
"""Letters of a script that a vocabulary needs to know it; alphabets have 22 or more, formulas a few Greek."""

# First bytes of Latin, Greek, Cyrillic, Armenian, Hebrew and Arabic letters in UTF-8.
_LETTER_BYTES = range(0xC3, 0xDC)
# Forms of pieces that other projects use for languages, sentinels and unused rows.
_MARKS = r"<(extra_id_|unused|special)\d*>|<2[\w-]+>|>>\S+<<|__[a-z][\w-]*__"
_MARK_IN_MODEL = re.compile(_MARKS)
_MARK = re.compile(
    _MARKS + r"|</?(s|unk|pad|mask|blank|bos|eos|sep|cls|eop|eod)>|\[[A-Za-z_-]+\]"
    r"|[a-z]{2,3}_[A-Z][A-Za-z]{1,3}|madeupword\d+"
)


_FIRST_OF_MARKS = ("<", ">", "_", "[", "m")


def is_mark(piece: str, *, in_model: bool) -> bool:
    """Returns whether a piece marks something in place of text: a language, a sentinel, an unused row.

    Args:
        piece: The piece.
        in_model: Whether the model that cuts text has the piece, as it may have `<b>` for text.
    """
    if piece[:1] not in _FIRST_OF_MARKS and "_" not in piece[2:4]:
        return False  # cheaper than a pattern, for vocabularies of 256,000 pieces
    return (_MARK_IN_MODEL if in_model else _MARK).fullmatch(piece) is not None


def with_specials(pieces: Sequence[str], special_ids: Mapping[str, int], name: str) -> Sequence[str]:
    """Returns the pieces, with those of special ids that lie past the last.

    Args:
        pieces: The piece of every id.
        special_ids: Id of each of SPECIAL_NAMES.
        name: Name of the file, for messages.

    Raises:
        TokenizerError: If a special id is missing, or an id between is nothing's.
    """
    for special in SPECIAL_NAMES:
        if special not in special_ids:
            raise TokenizerError(f"{name} must have a {special} id, but has none")
    appended = sorted({id_ for id_ in special_ids.values() if id_ >= len(pieces)})
    if appended != list(range(len(pieces), len(pieces) + len(appended))):
        raise TokenizerError(f"{name} has {len(pieces)} pieces, which special ids must follow: {appended}")
    names = {id_: special for special, id_ in special_ids.items()}
    return [*pieces, *(_SPECIAL_PIECES[names[id_]] for id_ in appended)] if appended else pieces


class PieceModel(ABC):
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

    def __init__(
        self,
        name: str,
        pieces: Sequence[str],
        special_ids: Mapping[str, int],
        *,
        silent: Collection[int],
        byte_values: Mapping[int, int],
        clean: Callable[[str], str] = clean,
    ) -> None:
        """Sets what all kinds have in common.

        Args:
            name: Name of the file.
            pieces: The piece of every id.
            special_ids: Id of each of SPECIAL_NAMES.
            silent: Ids that are no text, the special ids with them.
            byte_values: The byte that an id stands for, for ids that stand for one.
            clean: Removes control characters from decoded text.
        """
        self.name = name
        self.size = len(pieces)
        self._piece_of = pieces
        self.pad_id, self.bos_id, self.eos_id, self.unk_id = (special_ids[name] for name in SPECIAL_NAMES)
        self._clean = clean
        self._bytes = byte_values
        self._byte_ids = {byte: id_ for id_, byte in byte_values.items()}
        self._silent = {*silent, *special_ids.values()}
        self._special = frozenset({*self._silent, *byte_values})
        self._foreign = frozenset(byte_values) | {self.unk_id}
        self._spaces = {id_ for id_, piece in enumerate(pieces) if piece == SPACE}
        single = {piece for id_, piece in enumerate(pieces) if len(piece) == 1 and id_ not in self._special}
        self.characters = frozenset({" ", *single})
        self._letters = letters_of_scripts(self.characters, at_least=_ENOUGH_LETTERS)

    @property
    def special_ids(self) -> tuple[int, ...]:
        """The ids of SPECIAL_NAMES, in that order."""
        return self.pad_id, self.bos_id, self.eos_id, self.unk_id

    @cached_property
    def word_parts(self) -> bytes:
        """For each id one byte, 1 if its piece continues a word of a script with spaces between words.

        Empty if the pieces do not tell where a word begins.
        """
        if not any(piece.startswith(SPACE) for piece in self._piece_of):
            return b""
        return bytes(
            self._bytes.get(id_) in _LETTER_BYTES
            or (piece[:1].isalnum() and id_ not in self._special and UNSPACED.match(piece) is None)
            for id_, piece in enumerate(self._piece_of)
        )

    @abstractmethod
    def encode(self, text: str) -> list[int]:
        """Returns the ids of prepared text, without special ids."""

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Encodes many texts."""
        return [self.encode(text) for text in texts]

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text of ids without special ids, control symbols and broken bytes."""
        self._check(ids)
        is_plain = self._special.isdisjoint(ids)
        return self._clean(self._join(list(ids if is_plain else self._readable(ids)))).strip()

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
        num_words = sum(id_ not in self._special and id_ not in self._spaces for id_ in ids)
        return num_foreign > num_own + num_words

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Returns the piece of every id, special ones included."""
        self._check(ids)
        return [self._piece_of[id_] for id_ in ids]

    def ids_of(self, pieces: Collection[str]) -> dict[str, int]:
        """Returns the ids of those pieces that the vocabulary has."""
        return {piece: id_ for id_, piece in enumerate(self._piece_of) if piece in pieces}

    def scored_pieces(self) -> dict[int, tuple[str, float]]:
        """Returns the pieces of text with their scores, by id, without special pieces and bytes.

        The scores of a unigram model are logarithms of probabilities, those of a BPE model the order of
        merges; other models have none.
        """
        ids = [id_ for id_ in range(self.size) if id_ not in self._special]
        return dict(zip(ids, zip(self.pieces(ids), self._scores(ids), strict=True), strict=True))

    @abstractmethod
    def _join(self, ids: list[int]) -> str:
        """Returns the text of ids that all stand for text."""

    def _scores(self, ids: list[int]) -> list[float]:
        return [0.0] * len(ids)

    def _check(self, ids: Sequence[int]) -> None:
        if ids and not 0 <= min(ids) <= max(ids) < self.size:
            wrong = next(id_ for id_ in ids if not 0 <= id_ < self.size)
            raise TokenizerError(f"{self.name} has ids from 0 to {self.size - 1}, not {wrong}")

    def _readable(self, ids: Sequence[int]) -> Iterator[int]:
        """Yields the ids that stand for text; byte pieces only if together they are UTF-8."""
        spoken = (id_ for id_ in ids if id_ not in self._silent)
        for are_bytes, run in groupby(spoken, key=self._bytes.__contains__):
            if not are_bytes:
                yield from run
                continue
            text = bytes(self._bytes[id_] for id_ in run).decode("utf-8", errors="ignore")
            yield from (self._byte_ids[byte] for byte in text.encode())
