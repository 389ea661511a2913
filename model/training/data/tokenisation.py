"""ⓓ Turns clean text of every corpus and direction into token ids, chunk by chunk."""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import compress, islice
from random import Random
from typing import NamedTuple

from model.text.tokenizer import Tokenizer
from model.training.config.sections import AugmentationConfig, CleaningConfig, CorpusConfig
from model.training.data.augmentation.augmenter import Augmenter, Copy
from model.training.data.augmentation.word_pairs import MOST_SENTENCES, Segmenter, WordPairs, segments
from model.training.data.cleaning import Cleaner, CleaningReport
from model.training.data.corpus import SentencePair, read_pairs

CHUNK_SIZE = 8192

_DRAWING_SEED = 1
_NO_COPIES = AugmentationConfig()


class TokenPair(NamedTuple):
    """[tag], pieces, EOS of the source; pieces, EOS of the target."""

    source: list[int]
    target: list[int]


class TokenChunk(NamedTuple):
    """Pairs of one corpus in one direction.

    Attributes:
        direction: (source, target) codes.
        weight: How often each pair is drawn in an epoch.
        pairs: Token ids.
        kinds: The kind of each pair, if augmentation made them.
        number: Counts chunks of text; all that is made of one has its number.
    """

    direction: tuple[str, str]
    weight: float
    pairs: list[TokenPair]
    kinds: Sequence[str] = ()
    number: int = 0


def clean_corpora(
    corpora: Sequence[CorpusConfig], cleaning: CleaningConfig, report: CleaningReport
) -> Iterator[tuple[CorpusConfig, Iterator[SentencePair]]]:
    """Each corpus with its clean pairs, to be read in order; duplicates are found across corpora."""
    cleaner = Cleaner(cleaning)
    for corpus in corpora:
        pairs = read_pairs(corpus)
        yield corpus, cleaner.clean(pairs, corpus.source_language, corpus.target_language, report)


def directed_sentences(
    corpora: Sequence[CorpusConfig], cleaning: CleaningConfig, report: CleaningReport | None = None
) -> Iterator[tuple[str, str]]:
    """(source, target) sentences of every direction, as often as an epoch draws them, for the vocabulary.

    If all weights are below 1, they are scaled so that the highest is 1. Cleaning is counted in `report`.
    """
    generator = Random(_DRAWING_SEED)  # noqa: S311  nothing secret
    scale = 1 / min(1.0, max(corpus.weight for corpus in corpora))
    for corpus, pairs in clean_corpora(corpora, cleaning, report or CleaningReport()):
        weight = corpus.weight * scale
        for pair in pairs:
            times = int(weight + generator.random())
            for _ in range(times):
                yield from (_turned([pair], corpus, direction)[0] for direction in corpus.directions)


def tokenised_chunks(
    corpora: Sequence[CorpusConfig],
    tokenizer: Tokenizer,
    cleaning: CleaningConfig,
    report: CleaningReport,
    augmentation: AugmentationConfig = _NO_COPIES,
    *,
    chunk_size: int = CHUNK_SIZE,
    rank: int = 0,
    size: int = 1,
) -> Iterator[TokenChunk]:
    """Token ids of all clean pairs: each chunk of text in one direction, then in the other.

    A pair with a side longer than `cleaning.max_length_tokens` in any direction is dropped in all. Altered
    copies follow their chunk, and pairs of single words follow their corpus.

    Of several processes (`rank` of `size`) each tokenises every `size`-th chunk and counts what is too long
    there; the first one aligns single words. All of them clean all text, because duplicates are found across
    it. In the order of their numbers, the chunks of all processes are those of one process.
    """
    tokenisation = _Tokenisation(tokenizer, cleaning, augmentation)
    number = 0
    for corpus, pairs in clean_corpora(corpora, cleaning, report):
        texts: list[SentencePair] = []
        while chunk := list(islice(pairs, chunk_size)):
            is_own = number % size == rank
            gives_words = bool(augmentation.words) and rank == 0 and len(texts) < MOST_SENTENCES
            if is_own or gives_words:
                plain, fitting = tokenisation.plain(chunk, corpus)
                if gives_words:
                    texts.extend(fitting[: MOST_SENTENCES - len(texts)])
                if is_own:
                    report.recount(len(chunk) - len(fitting), "too_long")
                    for each in (*plain, *tokenisation.copies(fitting, corpus)):
                        yield each._replace(number=number)
            number += 1
        if texts:
            yield from (each._replace(number=number) for each in tokenisation.words(texts, corpus))
        number += 1


class _Tokenisation:
    """Turns chunks of text into chunks of token ids: unaltered, altered, and as single words."""

    def __init__(
        self, tokenizer: Tokenizer, cleaning: CleaningConfig, augmentation: AugmentationConfig
    ) -> None:
        self._tokenizer = tokenizer
        self._max_length = cleaning.max_length_tokens
        self._augmenter = Augmenter(augmentation)
        self._weight_of_words = augmentation.words

    def plain(
        self, pairs: Sequence[SentencePair], corpus: CorpusConfig
    ) -> tuple[list[TokenChunk], list[SentencePair]]:
        """A chunk for each direction, and the pairs that fit in all directions."""
        ways = self._both_ways(pairs, corpus)
        fits = [all(map(self._fits, directed)) for directed in zip(*ways, strict=True)]
        chunks = [
            TokenChunk(direction, corpus.weight, list(compress(way, fits)))
            for direction, way in zip(corpus.directions, ways, strict=True)
        ]
        return chunks, list(compress(pairs, fits))

    def copies(self, pairs: Sequence[SentencePair], corpus: CorpusConfig) -> Iterator[TokenChunk]:
        """Chunks of altered copies in each direction."""
        for direction in corpus.directions:
            copies = list(self._augmenter.copies(_turned(pairs, corpus, direction), *direction))
            if copies:
                yield self._usable(copies, direction, corpus.weight)

    def words(self, pairs: Sequence[SentencePair], corpus: CorpusConfig) -> Iterator[TokenChunk]:
        """Chunks of single words in each direction, with their own weight."""
        forward = corpus.directions[0]
        found = WordPairs(pairs, forward, (self._source_segments(forward[1]), self._target_segments))
        for direction in corpus.directions:
            copies = [Copy("words", pair) for pair in found.directed(reverse=direction != forward)]
            if copies:
                yield self._usable(copies, direction, corpus.weight * self._weight_of_words)

    def _both_ways(self, pairs: Sequence[SentencePair], corpus: CorpusConfig) -> list[list[TokenPair]]:
        """The ids of all pairs in each direction."""
        forward = self._encode(pairs, corpus.directions[0])
        return [forward, *(self._turned_round(forward, pairs, corpus, way) for way in corpus.directions[1:])]

    def _turned_round(
        self,
        forward: Sequence[TokenPair],
        pairs: Sequence[SentencePair],
        corpus: CorpusConfig,
        way: tuple[str, str],
    ) -> list[TokenPair]:
        """The ids of the reverse direction.

        A shared vocabulary reuses the ids, except for tags and texts that a source tokenises differently.
        """
        if not self._tokenizer.is_shared:
            return self._encode(_turned(pairs, corpus, way), way)
        known = self._tokenizer.language_tags
        tag = [known[way[1]]] if known else []
        turned = [TokenPair(tag + target, source[len(tag) :]) for source, target in forward]
        others = [
            place for place, pair in enumerate(pairs) if any(map(self._tokenizer.reads_otherwise, pair))
        ]
        again = self._encode(_turned([pairs[place] for place in others], corpus, way), way)
        for place, pair in zip(others, again, strict=True):
            turned[place] = pair
        return turned

    def _usable(self, copies: Sequence[Copy], direction: tuple[str, str], weight: float) -> TokenChunk:
        """The copies that are short enough, and that the vocabulary can spell."""
        encoded = self._encode([copy.pair for copy in copies], direction)
        usable = [self._fits(pair) and self._can_spell(pair) for pair in encoded]
        kinds = [copy.kind for copy in compress(copies, usable)]
        return TokenChunk(direction, weight, list(compress(encoded, usable)), kinds)

    def _encode(self, pairs: Sequence[SentencePair], direction: tuple[str, str]) -> list[TokenPair]:
        tokenizer = self._tokenizer
        sources = tokenizer.encode_batch([pair.source for pair in pairs], target_language=direction[1])
        targets = tokenizer.encode_target_batch([pair.target for pair in pairs])
        return [TokenPair(*sides) for sides in zip(sources, targets, strict=True)]

    def _source_segments(self, target_language: str) -> Segmenter:
        tokenizer = self._tokenizer
        encode = partial(tokenizer.encode_batch, target_language=target_language)
        return lambda texts: [segments(tokenizer.source_pieces(ids)) for ids in encode(texts)]

    def _target_segments(self, texts: Sequence[str]) -> list[list[str]]:
        tokenizer = self._tokenizer
        return [segments(tokenizer.pieces(ids)) for ids in tokenizer.encode_target_batch(texts)]

    def _fits(self, pair: TokenPair) -> bool:
        return max(len(pair.source), len(pair.target)) <= self._max_length

    def _can_spell(self, pair: TokenPair) -> bool:
        unknown = self._tokenizer.unk_id
        has_unknown = unknown in pair.source or unknown in pair.target
        return not has_unknown and self._tokenizer.can_spell(pair.source)


def _turned(
    pairs: Sequence[SentencePair], corpus: CorpusConfig, direction: tuple[str, str]
) -> Sequence[SentencePair]:
    """Pairs in the order of a direction."""
    if direction[0] == corpus.source_language:
        return pairs
    return [SentencePair(pair.target, pair.source) for pair in pairs]
