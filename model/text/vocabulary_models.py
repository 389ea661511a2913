"""③ Sides without SentencePiece, whose ids are those of a vocabulary: characters, and subword-nmt's pairs."""

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Protocol

from model.errors import TokenizerError
from model.text.normalisation import without_controls
from model.text.piece_model import SPACE, PieceModel, is_mark, with_specials

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


class Words(Protocol):
    """Turns text into words, and words into text."""

    def split(self, text: str) -> list[str]:
        """Returns the words of a text."""

    def join(self, words: list[str]) -> str:
        """Returns the text of words."""


class WhiteSpace:
    """Words between white space."""

    def split(self, text: str) -> list[str]:
        """Returns the words of a text."""
        return text.split()

    def join(self, words: list[str]) -> str:
        """Returns the text of words."""
        return " ".join(words)


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
        words: Words | None = None,
    ) -> None:
        """Reads a file of merges.

        Args:
            path: The file.
            vocabulary: The piece of every id.
            special_ids: Id of each of SPECIAL_NAMES.
            tags: Pieces that select a language.
            words: What turns text into words; None is white space.

        Raises:
            TokenizerError: If the file cannot be read, has a line that is no pair, or lacks a special id.
        """
        self._ends_apart, self._ranks = _read_merges(path)
        super().__init__(path.name, vocabulary, special_ids, tags)
        self._words_of = words or WhiteSpace()
        self._word = lru_cache(maxsize=_CACHED_WORDS)(self._cut_word)

    def _cut(self, text: str) -> list[str]:
        return [piece for word in self._words_of.split(text) for piece in self._pieces_of(word)]

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
        return self._words_of.join(text.split())


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
