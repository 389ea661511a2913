"""ⓓ Clean text of every corpus and direction as token ids, a chunk at a time."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from model.text.tokenizer import Tokenizer
from model.training.data.cleaning import Cleaner, CleaningReport
from model.training.data.config import CleaningConfig, CorpusConfig
from model.training.data.corpus import SentencePair, read_pairs

CHUNK_SIZE = 8192


class TokenPair(NamedTuple):
    """[tag], pieces, EOS of the source; pieces, EOS of the target."""

    source: list[int]
    target: list[int]


class TokenChunk(NamedTuple):
    """Some pairs of one corpus in one direction."""

    corpus: CorpusConfig
    direction: tuple[str, str]
    pairs: list[TokenPair]


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
    *,
    chunk_size: int = CHUNK_SIZE,
) -> Iterator[TokenChunk]:
    """Token ids of all clean pairs: for each chunk of text, first one direction, then the other.

    A pair with a side longer than `cleaning.max_length_tokens` in any direction is dropped in all.
    """
    for corpus, pairs in clean_corpora(corpora, cleaning, report):
        while chunk := list(islice(pairs, chunk_size)):
            ways = [_encode(chunk, corpus, direction, tokenizer) for direction in corpus.directions]
            fits = [
                max(len(side) for pair in directed for side in pair) <= cleaning.max_length_tokens
                for directed in zip(*ways, strict=True)
            ]
            report.recount(fits.count(False), "too_long")
            for direction, way in zip(corpus.directions, ways, strict=True):
                kept = [pair for pair, fit in zip(way, fits, strict=True) if fit]
                yield TokenChunk(corpus, direction, kept)


def _turned(pair: SentencePair, corpus: CorpusConfig, direction: tuple[str, str]) -> SentencePair:
    """A pair with the side to be read first."""
    return pair if direction[0] == corpus.source_language else SentencePair(pair.target, pair.source)


def _encode(
    pairs: Sequence[SentencePair], corpus: CorpusConfig, direction: tuple[str, str], tokenizer: Tokenizer
) -> list[TokenPair]:
    turned = [_turned(pair, corpus, direction) for pair in pairs]
    sources = tokenizer.encode_batch([pair.source for pair in turned], target_language=direction[1])
    targets = tokenizer.encode_target_batch([pair.target for pair in turned])
    return [TokenPair(*sides) for sides in zip(sources, targets, strict=True)]
