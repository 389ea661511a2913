"""ⓓ Single words of a corpus that translate each other, found by aligning its sentences."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, pairwise
from typing import NamedTuple, Self

from model.text.casing import lower, upper
from model.text.languages import has_unspaced_words
from model.training.data.corpus import SentencePair
from model.training.data.lexicon import Lexicon, ParallelIds

Segmenter = Callable[[Sequence[str]], Sequence[Sequence[str]]]
"""Cuts texts of a language without spaces into words, or into something that comes near them."""

MOST_SENTENCES = 100_000

_WORD = re.compile(r"[^\W\d_]{2,}(?:['’-][^\W\d_]+)*")
"""Of one piece are `aujourd'hui` and `rendez-vous`: half of them translates nothing. `l'eau` is not."""
_CONTRACTION = re.compile(r"(?:n['’]t|['’](?:re|ve|ll|[smd]))$")
"""Two words in one, such as `don't` and `geht's`, which no single word translates."""
_MIN_COUNT = 5
_MIN_PROBABILITY = 0.3
_MIN_PROBABILITY_OF_SEGMENTS = 0.5
"""Segments are parts of words as well, which have to be left out."""
_MOST_FOLLOWED_ALIKE = 0.7
"""A share; what is followed by the same word more often is half of an expression, as `thank` you."""
_NOTHING = 0
"""The paper's empty word, which every sentence has."""


class _Word(NamedTuple):
    """A word.

    Attributes:
        folded: In lower case.
        usual: As it mostly stands inside sentences: a German noun with its capital.
        capitalised: As it stands where a sentence begins.
        has_case: Whether its script has capitals.
        is_half: Whether it is nearly always followed by the same word.
    """

    folded: str
    usual: str
    capitalised: str
    has_case: bool
    is_half: bool

    @classmethod
    def of(cls, folded: str, usual: str, language: str, *, is_half: bool) -> Self:
        """With what follows from the language."""
        capitalised = upper(usual[0], language) + usual[1:]
        return cls(folded, usual, capitalised, upper(folded[0], language) != folded[0], is_half)


class _Side:
    """The words of one language in a corpus, numbered from 1, that are frequent enough.

    Attributes:
        rows: Words of each text by number.
        forms: Its words as they are usual.
        is_segmented: Whether a segmenter had to say what the words are.
    """

    def __init__(self, texts: Sequence[str], language: str, segmenter: Segmenter) -> None:
        self.is_segmented = has_unspaced_words(language)
        words = segmenter(texts) if self.is_segmented else [_WORD.findall(text) for text in texts]
        folded = [[lower(word, language) for word in row] for row in words]
        counts = Counter(chain.from_iterable(folded))
        frequent = [word for word, count in counts.items() if count >= _MIN_COUNT]
        numbers = {word: number for number, word in enumerate(frequent, start=1)}
        self.rows = [[numbers[word] for word in row if word in numbers] for row in folded]
        inside = Counter(chain.from_iterable(row[1:] for row in words))
        usual = {lower(form, language): form for form in sorted(inside, key=inside.__getitem__)}
        neighbours = Counter(chain.from_iterable(map(pairwise, folded)))
        halves = {one for (one, _), count in neighbours.items() if count > _MOST_FOLLOWED_ALIKE * counts[one]}
        self._words = [
            _Word.of(word, usual.get(word, word), language, is_half=word in halves) for word in frequent
        ]
        self.forms = {word.usual for word in self._words}

    def __len__(self) -> int:
        return len(self._words) + 1

    def __getitem__(self, number: int) -> _Word:
        return self._words[number - 1]


class WordPairs:
    """Words that translate each other, to be had in both directions.

    IBM model 1 must give each a large part of the other's probability (`model.training.data.lexicon`), so
    that words of many translations, articles among them, are left out. So are contractions, words that
    are half of an expression, and names that both sides have: New York's parts go together in any order.

    Args:
        pairs: Sentences; the first MOST_SENTENCES of them are aligned.
        languages: Codes of their two sides.
        segmenters: Of the two sides, for those without spaces.
    """

    def __init__(
        self,
        pairs: Sequence[SentencePair],
        languages: tuple[str, str],
        segmenters: tuple[Segmenter, Segmenter],
    ) -> None:
        texts = zip(*pairs[:MOST_SENTENCES], strict=True)
        ours, theirs = (_Side(*side) for side in zip(texts, languages, segmenters, strict=True))
        both = [(ours[our], theirs[their]) for our, their in _each_others(ours, theirs)]
        names = {form for form in ours.forms & theirs.forms if form[0].isupper()}
        self._both = [pair for pair in both if not any(w.usual in names or _is_no_word(w) for w in pair)]

    def __len__(self) -> int:
        return len(self._both)

    def directed(self, *, reverse: bool = False) -> Iterator[SentencePair]:
        """Source in lower case and target as it is usual inside a sentence; then both with a capital."""
        for first, second in self._both:
            said, meant = (second, first) if reverse else (first, second)
            yield SentencePair(said.folded, meant.usual)
            if said.has_case:
                yield SentencePair(said.capitalised, meant.capitalised)


def segments(pieces: Iterable[str]) -> list[str]:
    """What a tokenizer's pieces hold of words: letters alone."""
    bare = (piece.removeprefix("▁") for piece in pieces)
    return [piece for piece in bare if piece.isalpha()]


def _is_no_word(word: _Word) -> bool:
    """But half of one, or two of them."""
    return word.is_half or _CONTRACTION.search(word.folded) is not None


def _each_others(ours: _Side, theirs: _Side) -> Iterator[tuple[int, int]]:
    """Numbers of words of which either is a likely translation of the other."""
    least = _MIN_PROBABILITY_OF_SEGMENTS if ours.is_segmented or theirs.is_segmented else _MIN_PROBABILITY
    forward = set(_likely(ours.rows, theirs.rows, len(theirs), least))
    for their, our in _likely(theirs.rows, ours.rows, len(ours), least):
        if (our, their) in forward:
            yield our, their


def _likely(
    sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], target_size: int, least: float
) -> Iterator[tuple[int, int]]:
    """Source and target numbers of translations that are at least so probable; the empty word has none."""
    rows = [([*ours, _NOTHING], theirs) for ours, theirs in zip(sources, targets, strict=True) if theirs]
    if rows:
        lexicon = Lexicon.learn(ParallelIds.of(rows), target_size, lambda _: None)
        likely = (lexicon.probabilities > least) & (lexicon.sources != _NOTHING)
        yield from zip(lexicon.sources[likely].tolist(), lexicon.targets[likely].tolist(), strict=True)
