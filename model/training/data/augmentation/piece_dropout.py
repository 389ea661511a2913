"""Piece dropout: segments the same text differently in every epoch, for a whole batch at once."""

import math
from collections.abc import Iterator, Mapping
from functools import cache
from heapq import nlargest
from itertools import pairwise
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from model.decoding.sentence import FIRST_MULTIPLIER, GOLDEN_GAMMA, SECOND_MULTIPLIER
from model.text.tokenizer import Tokenizer
from model.training.config_sections import BatchConfig
from model.training.data.dataset import Indices, Lengths, Rows, TokenStore

ScoredPieces = Mapping[int, tuple[str, float]]
"""SentencePiece's pieces and their scores by id, without special pieces and bytes."""

Weighted = list[tuple[tuple[str, ...], float]]

_MOST_CUTS = 16
_SMOOTHING = 0.2
"""α of subword regularisation without a limit on the candidates (section 4.2 of the paper)."""

_ROWS_AT_ONCE = 2**18


class Cut(NamedTuple):
    """Ids that spell a piece, and their probability among its finer cuts."""

    ids: tuple[int, ...]
    probability: float


def finer_cuts(pieces: ScoredPieces) -> dict[int, list[Cut]]:
    """The most probable cuts of each piece into several pieces, by id; pieces without a cut are left out.

    In a unigram model the weight of a cut is the product of the probabilities of its pieces to the power of
    0.2, as in subword regularisation (https://arxiv.org/abs/1804.10959). In a BPE model the last merge is
    undone, and each merge below it with probability ½, as in BPE-dropout (https://arxiv.org/abs/1910.13267).
    """
    ids = {piece: id_ for id_, (piece, _) in pieces.items()}
    scores = dict(pieces.values())
    cuts = _merge_cuts(scores) if _are_ranks(scores) else _unigram_cuts(scores)
    return {
        ids[piece]: [Cut(tuple(ids[part] for part in parts), share) for parts, share in _shares(found)]
        for piece, found in cuts
        if found
    }


def _shares(cuts: Weighted) -> Weighted:
    total = sum(weight for _, weight in cuts)
    return [(parts, weight / total) for parts, weight in cuts]


def _are_ranks(scores: Mapping[str, float]) -> bool:
    """Returns whether the scores are ranks of BPE merges, which are integers, and not log probabilities."""
    return all(score == round(score) for score in scores.values())


def _unigram_cuts(scores: Mapping[str, float]) -> Iterator[tuple[str, Weighted]]:
    for piece in scores:
        best: list[list[tuple[float, tuple[str, ...]]]] = [[(0.0, ())]]
        for end in range(1, len(piece) + 1):
            ways = (
                (score + scores[piece[start:end]], (*parts, piece[start:end]))
                for start in range(end)
                if piece[start:end] in scores
                for score, parts in best[start]
            )
            best.append(nlargest(_MOST_CUTS + 1, ways))
        yield piece, [(parts, math.exp(_SMOOTHING * score)) for score, parts in best[-1] if len(parts) > 1]


def _merge_cuts(scores: Mapping[str, float]) -> Iterator[tuple[str, Weighted]]:
    @cache
    def whole_or_undone(piece: str) -> Weighted:
        finer = [(parts, share / 2) for parts, share in undone(piece)]
        return [((piece,), 0.5 if finer else 1.0), *finer]

    @cache
    def undone(piece: str) -> Weighted:
        halves = _last_merge(piece, scores)
        if halves is None:
            return []
        left, right = map(whole_or_undone, halves)
        cuts = ((some + others, one * other) for some, one in left for others, other in right)
        return nlargest(_MOST_CUTS, cuts, key=lambda cut: cut[1])

    for piece in scores:
        yield piece, undone(piece)


def _last_merge(piece: str, scores: Mapping[str, float]) -> tuple[str, str] | None:
    """The two pieces that BPE merges last into this one; None if BPE does not produce it."""
    parts = list(piece)
    while len(parts) > 2:
        joined = [scores.get(left + right, -math.inf) for left, right in pairwise(parts)]
        place = max(range(len(joined)), key=joined.__getitem__)
        if joined[place] == -math.inf:
            return None
        parts[place : place + 2] = [parts[place] + parts[place + 1]]
    return (parts[0], parts[1]) if len(parts) == 2 and all(part in scores for part in parts) else None


class PieceDropout:
    """Cuts random pieces into smaller ones; the ids still spell the same text.

    Whether a token is cut depends only on the seed, the epoch, its pair and its position, so that a resumed
    run and other batches see the same cuts. Special ids and bytes are never cut.

    Args:
        pieces: The pieces of the vocabulary.
        vocab_size: Exclusive bound of the ids.
        rate: Probability of cutting a piece that can be cut.
        seed: Seed of all random numbers.
    """

    def __init__(self, pieces: ScoredPieces, vocab_size: int, *, rate: float, seed: int) -> None:
        self._seed = seed % 2**63
        cuts = finer_cuts(pieces)
        ways = [
            [((id_,), 1 - rate if id_ in cuts else 1.0), *((ids, rate * p) for ids, p in cuts.get(id_, ()))]
            for id_ in range(vocab_size)
        ]
        counts = np.array([len(options) for options in ways])
        self._whole = np.cumsum(counts) - counts
        spelt = [ids for options in ways for ids, _ in options]
        self._lengths = np.array([len(ids) for ids in spelt])
        self._starts = np.cumsum(self._lengths) - self._lengths
        self._ids = np.array([id_ for ids in spelt for id_ in ids])
        shares = np.array([share for options in ways for _, share in options])
        owners = np.repeat(np.arange(vocab_size), counts)
        below = np.cumsum(shares) - shares
        # Cumulative shares of the ways of each id, offset by the id: one search finds id and way.
        self._bounds = owners + (below - below[self._whole][owners]).clip(0, 1)
        self._mean = np.bincount(owners, shares * self._lengths)
        self._variance = np.bincount(owners, shares * self._lengths**2) - self._mean**2

    def cut(self, rows: Rows, pairs: Indices, epoch: int, longest: int) -> Rows:
        """The rows of some pairs in an epoch; a row that would exceed `longest` stays uncut."""
        row_of_token = np.repeat(np.arange(len(rows.lengths)), rows.lengths)
        starts = np.cumsum(rows.lengths) - rows.lengths
        places = np.arange(len(rows.tokens)) - starts[row_of_token]
        chances = _chances([self._seed, epoch], pairs[row_of_token], places)
        ways = np.searchsorted(self._bounds, rows.tokens + chances, side="right") - 1
        lengths = np.add.reduceat(self._lengths[ways], starts)
        ways = np.where((lengths > longest)[row_of_token], self._whole[rows.tokens], ways)
        counts = self._lengths[ways]
        ends = np.cumsum(counts)
        gathered = np.arange(ends[-1]) + np.repeat(self._starts[ways] - (ends - counts), counts)
        return Rows(self._ids[gathered], np.add.reduceat(counts, starts).astype(np.int32))

    def typical_lengths(self, rows: Rows) -> npt.NDArray[np.float64]:
        """Returns the mean length of each row plus one standard deviation; five of six rows stay below it."""
        starts = np.cumsum(rows.lengths) - rows.lengths
        mean = np.add.reduceat(self._mean[rows.tokens], starts)
        variance = np.add.reduceat(self._variance[rows.tokens], starts)
        lengths: npt.NDArray[np.float64] = mean + np.sqrt(variance.clip(0))
        return lengths


class PieceDropouts(NamedTuple):
    """Piece dropout of the two sides; None leaves a side unchanged."""

    source: PieceDropout | None = None
    target: PieceDropout | None = None

    @classmethod
    def of(cls, tokenizer: Tokenizer, config: BatchConfig, *, seed: int) -> Self:
        """Piece dropout with the rates of a configuration."""
        sides = (tokenizer.source, tokenizer.target)
        rates = (config.piece_dropout, config.target_piece_dropout)
        return cls(
            *(
                PieceDropout(side.scored_pieces(), side.size, rate=rate, seed=2 * seed + i) if rate else None
                for i, (side, rate) in enumerate(zip(sides, rates, strict=True))
            )
        )


class VariedRows:
    """One side of a dataset, which piece dropout varies from epoch to epoch.

    Args:
        store: The sequences.
        dropout: None for no variation.

    Attributes:
        lengths: For planning batches; no sequence of a batch is longer than the longest of these.
    """

    def __init__(self, store: TokenStore, dropout: PieceDropout | None) -> None:
        self._store = store
        self._dropout = dropout
        self.lengths = store.lengths if dropout is None else _planned(store, dropout)

    def rows(self, pairs: Indices, epoch: int) -> Rows:
        """The sequences of some pairs in an epoch."""
        rows = self._store.rows(pairs)
        if self._dropout is None:
            return rows
        return self._dropout.cut(rows, pairs, epoch, int(self.lengths[pairs].max()))

    def lengths_of(self, pairs: Indices, epoch: int) -> Lengths:
        """Tokens of each of these sequences."""
        return self.lengths[pairs] if self._dropout is None else self.rows(pairs, epoch).lengths


def _planned(store: TokenStore, dropout: PieceDropout) -> Lengths:
    """Typical lengths, at most that of the longest sequence, so that the network's bound holds."""
    chunks = np.array_split(np.arange(len(store)), -(-len(store) // _ROWS_AT_ONCE))
    typical = np.concatenate([dropout.typical_lengths(store.rows(chunk)) for chunk in chunks])
    planned: Lengths = np.ceil(typical).clip(max=store.lengths.max()).astype(np.int32)
    return planned


def _chances(seeds: list[int], pairs: Indices, places: Indices) -> npt.NDArray[np.float64]:
    """Numbers in [0, 1): SplitMix64 of all arguments (https://doi.org/10.1145/2660193.2660195)."""
    state = np.zeros(len(pairs), dtype=np.uint64)
    for values in (*(np.full_like(pairs, seed) for seed in seeds), pairs, places):
        state = _mixed(state + values.astype(np.uint64) + np.uint64(GOLDEN_GAMMA))
    # 32 bits, because the sum of an id and its number must not round up to the next id.
    chances: npt.NDArray[np.float64] = (state >> np.uint64(32)).astype(np.float64) / 2**32
    return chances


def _mixed(state: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    state = (state ^ (state >> np.uint64(30))) * np.uint64(FIRST_MULTIPLIER)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(SECOND_MULTIPLIER)
    return state ^ (state >> np.uint64(31))
