"""ⓓ Clean text of every corpus and direction as token ids, a chunk at a time."""

from collections.abc import Iterator, Sequence
from itertools import compress, islice
from typing import NamedTuple

from model.text.tokenizer import Tokenizer
from model.training.data.augmentation.augmenter import Augmenter, Copy
from model.training.data.cleaning import Cleaner, CleaningReport
from model.training.data.config import AugmentationConfig, CleaningConfig, CorpusConfig
from model.training.data.corpus import SentencePair, read_pairs

CHUNK_SIZE = 8192

_NO_COPIES = AugmentationConfig()


class TokenPair(NamedTuple):
    """[tag], pieces, EOS of the source; pieces, EOS of the target."""

    source: list[int]
    target: list[int]


class TokenChunk(NamedTuple):
    """Some pairs of one corpus in one direction; of altered copies, also how each was altered."""

    corpus: CorpusConfig
    direction: tuple[str, str]
    pairs: list[TokenPair]
    kinds: Sequence[str] = ()


def clean_corpora(
    corpora: Sequence[CorpusConfig], cleaning: CleaningConfig, report: CleaningReport
) -> Iterator[tuple[CorpusConfig, Iterator[SentencePair]]]:
    """Each corpus with its clean pairs, to be read in turn; duplicates are found across them."""
    cleaner = Cleaner(cleaning)
    for corpus in corpora:
        pairs = read_pairs(corpus)
        yield corpus, cleaner.clean(pairs, corpus.source_language, corpus.target_language, report)


def directed_sentences(
    corpora: Sequence[CorpusConfig], cleaning: CleaningConfig
) -> Iterator[tuple[str, str]]:
    """(source, target) sentences of every direction trained, for learning a vocabulary."""
    for corpus, pairs in clean_corpora(corpora, cleaning, CleaningReport()):
        for pair in pairs:
            yield from (_turned(pair, corpus, direction) for direction in corpus.directions)


def tokenised_chunks(
    corpora: Sequence[CorpusConfig],
    tokenizer: Tokenizer,
    cleaning: CleaningConfig,
    report: CleaningReport,
    augmentation: AugmentationConfig = _NO_COPIES,
    *,
    chunk_size: int = CHUNK_SIZE,
) -> Iterator[TokenChunk]:
    """Token ids of all clean pairs: for each chunk of text, first one direction, then the other.

    A pair with a side longer than `cleaning.max_length_tokens` in any direction is dropped in all.
    Altered copies of a chunk's pairs follow it.
    """
    augmenter = Augmenter(augmentation)
    for corpus, pairs in clean_corpora(corpora, cleaning, report):
        while chunk := list(islice(pairs, chunk_size)):
            turned = [[_turned(pair, corpus, way) for pair in chunk] for way in corpus.directions]
            encoded = [
                _encode(way, target, tokenizer)
                for way, (_, target) in zip(turned, corpus.directions, strict=True)
            ]
            fits = [
                all(_fits(pair, cleaning) for pair in directed) for directed in zip(*encoded, strict=True)
            ]
            report.recount(fits.count(False), "too_long")
            for direction, way in zip(corpus.directions, encoded, strict=True):
                yield TokenChunk(corpus, direction, list(compress(way, fits)))
            for direction, texts in zip(corpus.directions, turned, strict=True):
                copies = list(augmenter.copies(list(compress(texts, fits)), *direction))
                if copies:
                    yield _copied(copies, corpus, direction, tokenizer, cleaning)


def _copied(
    copies: Sequence[Copy],
    corpus: CorpusConfig,
    direction: tuple[str, str],
    tokenizer: Tokenizer,
    cleaning: CleaningConfig,
) -> TokenChunk:
    """Those copies that are not too long, and that the vocabulary can spell."""
    encoded = _encode([copy.pair for copy in copies], direction[1], tokenizer)
    usable = [
        _fits(pair, cleaning)
        and tokenizer.unk_id not in pair.source
        and tokenizer.unk_id not in pair.target
        and tokenizer.can_spell(pair.source)
        for pair in encoded
    ]
    kinds = [copy.kind for copy in compress(copies, usable)]
    return TokenChunk(corpus, direction, list(compress(encoded, usable)), kinds)


def _turned(pair: SentencePair, corpus: CorpusConfig, direction: tuple[str, str]) -> SentencePair:
    """A pair with the side to be read first."""
    return pair if direction[0] == corpus.source_language else SentencePair(pair.target, pair.source)


def _encode(pairs: Sequence[SentencePair], target_language: str, tokenizer: Tokenizer) -> list[TokenPair]:
    sources = tokenizer.encode_batch([pair.source for pair in pairs], target_language=target_language)
    targets = tokenizer.encode_target_batch([pair.target for pair in pairs])
    return [TokenPair(*sides) for sides in zip(sources, targets, strict=True)]


def _fits(pair: TokenPair, cleaning: CleaningConfig) -> bool:
    return max(len(pair.source), len(pair.target)) <= cleaning.max_length_tokens
