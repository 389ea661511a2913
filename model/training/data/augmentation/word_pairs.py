"""ⓓ Pairs of single words that translate each other in a corpus, found by IBM model 1.

`model.training.data.lexicon` has the model.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, pairwise
from typing import NamedTuple, Self

from model.text.languages import has_unspaced_words, lower, upper
from model.training.data.corpus import SentencePair
from model.training.data.lexicon import Lexicon, ParallelIds

Segmenter = Callable[[Sequence[str]], Sequence[Sequence[str]]]
"""Cuts texts of a language without spaces into approximate words."""

MOST_SENTENCES = 100_000

_WORD = re.compile(r"[^\W\d_]{2,}(?:['’-][^\W\d_]+)*")
"""`aujourd'hui` and `rendez-vous` are one word; `l'eau` is two."""
_CONTRACTION = re.compile(r"(?:n['’]t|['’](?:re|ve|ll|[smd]))$")
"""Two words in one, such as `don't` and `geht's`, which no single word translates."""
_MIN_COUNT = 5
_MIN_PROBABILITY = 0.3
_MIN_PROBABILITY_OF_SEGMENTS = 0.5
"""Higher, because segments can be parts of words, which are left out."""
_MOST_FOLLOWED_ALIKE = 0.7
"""A word that the same word follows in a larger share is half of an expression, as in `thank you`."""
_EMPTY_WORD = 0
"""The empty word of the model, which every sentence has."""


class _Word(NamedTuple):
    """A frequent word of one side.

    Attributes:
        folded: The word in lower case.
        usual: Its most frequent form inside sentences: a German noun with its capital.
        capitalised: Its form at the beginning of a sentence.
        has_case: Whether its script has capitals.
        is_half: Whether it is mostly followed by the same word.
    """

    folded: str
    usual: str
    capitalised: str
    has_case: bool
    is_half: bool

    @classmethod
    def of(cls, folded: str, usual: str, language: str, *, is_half: bool) -> Self:
        """Derive the capitalised form from the language."""
        capitalised = upper(usual[0], language) + usual[1:]
        return cls(folded, usual, capitalised, upper(folded[0], language) != folded[0], is_half)


class _Side:
    """The frequent words of one language in a corpus, numbered from 1.

    Attributes:
        rows: Words of each text by number.
        forms: The usual forms of the words.
        is_segmented: Whether a segmenter cut the texts into words.
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
    """Words that translate each other in both directions.

    IBM model 1 must give each a high probability for the other, which leaves out words with many
    translations, such as articles. Contractions, words that are half of an expression, and names that both
    sides have (`New` and `York` align in any order) are left out as well.

    Args:
        pairs: Sentence pairs; the first MOST_SENTENCES are aligned.
        languages: Codes of the two sides.
        segmenters: One for each side, used for languages without spaces.
    """

    def __init__(
        self,
        pairs: Sequence[SentencePair],
        languages: tuple[str, str],
        segmenters: tuple[Segmenter, Segmenter],
    ) -> None:
        texts = zip(*pairs[:MOST_SENTENCES], strict=True)
        sources, targets = (_Side(*side) for side in zip(texts, languages, segmenters, strict=True))
        both = [(sources[one], targets[other]) for one, other in _mutual_translations(sources, targets)]
        names = {form for form in sources.forms & targets.forms if form[0].isupper()}
        self._both = [pair for pair in both if not any(w.usual in names or _is_no_word(w) for w in pair)]

    def __len__(self) -> int:
        return len(self._both)

    def directed(self, *, reverse: bool = False) -> Iterator[SentencePair]:
        """Each pair twice: source in lower case and target in its usual form; then both with a capital."""
        for first, second in self._both:
            source, target = (second, first) if reverse else (first, second)
            yield SentencePair(source.folded, target.usual)
            if source.has_case:
                yield SentencePair(source.capitalised, target.capitalised)


def segments(pieces: Iterable[str]) -> list[str]:
    """The pieces of a tokenizer that consist of letters, without word marks."""
    bare = (piece.removeprefix("▁") for piece in pieces)
    return [piece for piece in bare if piece.isalpha()]


def _is_no_word(word: _Word) -> bool:
    """Returns whether it is half of an expression, or a contraction of two words."""
    return word.is_half or _CONTRACTION.search(word.folded) is not None


def _mutual_translations(sources: _Side, targets: _Side) -> Iterator[tuple[int, int]]:
    """Numbers of words that are likely translations of each other."""
    is_segmented = sources.is_segmented or targets.is_segmented
    least = _MIN_PROBABILITY_OF_SEGMENTS if is_segmented else _MIN_PROBABILITY
    forward = set(_likely(sources.rows, targets.rows, len(targets), least))
    for target, source in _likely(targets.rows, sources.rows, len(sources), least):
        if (source, target) in forward:
            yield source, target


def _likely(
    sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], target_size: int, least: float
) -> Iterator[tuple[int, int]]:
    """Source and target numbers of translations with a probability above `least`, without the empty word."""
    rows = [([*row, _EMPTY_WORD], other) for row, other in zip(sources, targets, strict=True) if other]
    if rows:
        lexicon = Lexicon.learn(ParallelIds.of(rows), target_size, lambda _: None)
        likely = (lexicon.probabilities > least) & (lexicon.sources != _EMPTY_WORD)
        yield from zip(lexicon.sources[likely].tolist(), lexicon.targets[likely].tolist(), strict=True)
