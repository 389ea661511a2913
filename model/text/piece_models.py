"""③ Pieces and ids of one side: cut by SentencePiece, into characters, or by subword-nmt's pairs."""

import re
from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import groupby, pairwise
from pathlib import Path
from typing import cast

import sentencepiece

from model.errors import TokenizerError
from model.text.languages import UNSPACED, letters_of_scripts
from model.text.normalisation import SPACE, clean, without_controls

SPECIAL_NAMES = ("pad", "bos", "eos", "unk")
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
        is_imported: bool = False,
    ) -> None:
        """Loads a model.

        Args:
            path: The model file.
            vocabulary: The piece of every id; None for the model's own ids.
            special_ids: Ids of SPECIAL_NAMES, also past the model's; those missing are the model's.
            tags: Pieces that select a language. No text produces them, unless they are words.
            is_imported: Whether another project trained the model. Its language marks and sentinels are then
                no text either, and decoded text keeps its characters.

        Raises:
            TokenizerError: If the file is missing, is not a SentencePiece model or lacks a special id.
        """
        self.name = path.name
        self._is_imported = is_imported
        self._processor = load_sentencepiece(path)
        everything = list(range(self._processor.get_piece_size()))
        own: list[str] = self._processor.id_to_piece(everything)
        controls = {own[id_] for id_, is_ in enumerate(self._processor.is_control(everything)) if is_}
        byte_pieces = {own[id_] for id_, is_ in enumerate(self._processor.is_byte(everything)) if is_}
        known = frozenset(own)
        specials = {**self._own_specials(own, vocabulary), **(special_ids or {})}
        pieces = with_specials(own if vocabulary is None else vocabulary, specials, self.name)
        if is_imported:
            controls |= {tag for tag in tags if not tag.startswith(SPACE)}
            marks = {piece for piece in pieces if is_mark(piece, in_model=piece in known)}
            controls |= marks - byte_pieces
        super().__init__(
            path.name,
            pieces,
            specials,
            silent={id_ for id_, piece in enumerate(pieces) if piece in controls},
            byte_values={id_: int(each[3:5], 16) for id_, each in enumerate(pieces) if each in byte_pieces},
            clean=without_controls if is_imported else clean,
        )
        self._to_id: array[int] | None = None
        if is_imported or vocabulary is not None:
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
        if not self._is_imported and self._bytes.keys().isdisjoint(ids):
            # As the processor does, in a third of its time; models of other projects may write other text.
            return "".join([self._piece_of[id_] for id_ in ids]).replace(SPACE, " ")
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


def load_sentencepiece(path: Path, content: bytes | None = None) -> sentencepiece.SentencePieceProcessor:
    """Loads a model file, or the content that a file was unpacked or converted to.

    Raises:
        TokenizerError: If the file cannot be read, or is not a SentencePiece model.
    """
    try:
        content = path.read_bytes() if content is None else content
    except OSError as error:
        raise TokenizerError(f"cannot read {path}: {error.strerror}") from error
    try:
        if not content:
            raise RuntimeError("empty")  # SentencePiece itself accepts it
        return sentencepiece.SentencePieceProcessor(model_proto=content)
    except RuntimeError as error:
        raise TokenizerError(f"{path} is not a SentencePiece model") from error


_CONTINUES = "@@"
_WORD_END = "</w>"
_VERSION = "#version: "
_CACHED_WORDS = 2**16
_LONGEST_WORD = 200  # characters


class VocabularyModel(PieceModel):
    """Pieces and ids of one side, where ids are those of a vocabulary; see PieceModel.

    Args:
        name: Name of the file.
        vocabulary: The piece of every id.
        special_ids: Id of each of SPECIAL_NAMES.
        tags: Pieces that select a language, which no text may produce.

    Raises:
        TokenizerError: If a special id is missing.
    """

    def __init__(
        self, name: str, vocabulary: Sequence[str], special_ids: Mapping[str, int], tags: Collection[str] = ()
    ) -> None:
        pieces = with_specials(vocabulary, special_ids, name)
        marks = [id_ for id_, each in enumerate(pieces) if each in tags or is_mark(each, in_model=False)]
        super().__init__(name, pieces, special_ids, silent=marks, byte_values={}, clean=without_controls)
        self._text_ids = {piece: id_ for id_, piece in enumerate(pieces) if id_ not in self._silent}

    def encode(self, text: str) -> list[int]:
        """Returns the ids of prepared text, without special ids."""
        return [self._text_ids.get(piece, self.unk_id) for piece in self._cut(text)]

    @abstractmethod
    def _cut(self, text: str) -> list[str]:
        """Returns the pieces of a text."""


class CharacterModel(VocabularyModel):
    """A piece for each character; white space is a space or U+2581, whichever the vocabulary has."""

    def _cut(self, text: str) -> list[str]:
        space = " " if " " in self._text_ids else SPACE
        return list(space.join(text.split()))

    def _join(self, ids: list[int]) -> str:
        return "".join(self.pieces(ids)).replace(SPACE, " ")


class MosesWords:
    """Words by the rules of Moses for one language, as the package `sacremoses` has them.

    Args:
        language: Code of the language.

    Raises:
        TokenizerError: If `sacremoses` is not installed.
    """

    def __init__(self, language: str) -> None:
        try:
            from sacremoses import MosesDetokenizer, MosesPunctNormalizer, MosesTokenizer
        except ImportError as error:
            raise TokenizerError("this model needs Moses' rules for words: install sacremoses") from error
        self._normalizer = MosesPunctNormalizer(language)
        self._tokenizer, self._detokenizer = MosesTokenizer(language), MosesDetokenizer(language)

    def split(self, text: str) -> list[str]:
        """Returns the words of a text."""
        words: list[str] = self._tokenizer.tokenize(self._normalizer.normalize(text))
        return words

    def join(self, words: list[str]) -> str:
        """Returns the text of words."""
        text: str = self._detokenizer.detokenize(words)
        return text


class SubwordNmtModel(VocabularyModel):
    """Words, cut by the byte pair encoding of subword-nmt; see VocabularyModel.

    The most frequent pair of symbols is merged first (Sennrich et al. 2016,
    https://aclanthology.org/P16-1162). A piece that the next one continues ends in `@@`.
    """

    def __init__(
        self,
        path: Path,
        vocabulary: Sequence[str],
        special_ids: Mapping[str, int],
        tags: Collection[str] = (),
        words: MosesWords | None = None,
    ) -> None:
        """Reads a file of merges.

        Args:
            path: The file.
            vocabulary: The piece of every id.
            special_ids: Id of each of SPECIAL_NAMES.
            tags: Pieces that select a language.
            words: What turns text into words, and back; None is white space.

        Raises:
            TokenizerError: If the file cannot be read, has a line that is no pair, or lacks a special id.
        """
        self._ends_apart, self._ranks = _read_merges(path)
        super().__init__(path.name, vocabulary, special_ids, tags)
        self._words = words
        self._word = lru_cache(maxsize=_CACHED_WORDS)(self._cut_word)

    def _cut(self, text: str) -> list[str]:
        words = text.split() if self._words is None else self._words.split(text)
        return [piece for word in words for piece in self._pieces_of(word)]

    def _pieces_of(self, word: str) -> Sequence[str]:
        if len(word) <= _LONGEST_WORD:
            return self._word(word)
        # The time that merging takes is quadratic in the length of a word.
        starts = range(0, len(word), _LONGEST_WORD)
        return [piece for start in starts for piece in self._cut_word(word[start : start + _LONGEST_WORD])]

    def _cut_word(self, word: str) -> tuple[str, ...]:
        symbols = [*word, _WORD_END] if self._ends_apart else [*word[:-1], word[-1] + _WORD_END]
        while len(symbols) > 1 and len(word) > 1:
            ranked = [(self._ranks[pair], pair) for pair in pairwise(symbols) if pair in self._ranks]
            if not ranked:
                break
            symbols = _merged(symbols, min(ranked)[1])
        symbols[-1] = symbols[-1].removesuffix(_WORD_END)
        whole = [symbol for symbol in symbols if symbol]
        return (*(symbol + _CONTINUES for symbol in whole[:-1]), whole[-1])

    def _join(self, ids: list[int]) -> str:
        text = " ".join(self.pieces(ids)).replace(_CONTINUES + " ", "").removesuffix(_CONTINUES)
        return " ".join(text.split()) if self._words is None else self._words.join(text.split())


def _merged(symbols: Sequence[str], pair: tuple[str, str]) -> list[str]:
    """Returns the symbols with every occurrence of a pair as one, from left to right."""
    merged: list[str] = []
    for symbol in symbols:
        if merged and (merged[-1], symbol) == pair:
            merged[-1] += symbol
        else:
            merged.append(symbol)
    return merged


def _read_merges(path: Path) -> tuple[bool, dict[tuple[str, str], int]]:
    """Returns whether the end of a word is a symbol of its own (version 0.1), and the rank of each pair."""
    try:
        lines = path.read_text(encoding="utf-8").rstrip("\n").split("\n")
    except (OSError, ValueError) as error:
        raise TokenizerError(f"cannot read {path}: {error}") from error
    version = lines.pop(0).removeprefix(_VERSION).strip() if lines[0].startswith(_VERSION) else "0.1"
    if version not in ("0.1", "0.2"):
        raise TokenizerError(f"{path} must be of version 0.1 or 0.2, but is of {version!r}")
    pairs = [tuple(line.strip("\r\n ").split(" ")) for line in lines]
    ranks: dict[tuple[str, str], int] = {}
    for rank, pair in enumerate(pairs):
        if len(pair) != 2:
            raise TokenizerError(f"{path} must hold pairs of symbols, but line {rank + 2} is {lines[rank]!r}")
        ranks.setdefault((pair[0], pair[1]), rank)
    return version == "0.1", ranks
