"""ⓓ The finer ways to cut a piece of a vocabulary into others of its pieces, and how likely each is."""

import math
from collections.abc import Iterator, Mapping
from functools import cache
from heapq import nlargest
from itertools import pairwise
from typing import NamedTuple

ScoredPieces = Mapping[int, tuple[str, float]]
"""Pieces that text is cut into, with their scores, by id: SentencePiece's, without special ones and bytes."""

Weighted = list[tuple[tuple[str, ...], float]]

_MOST_CUTS = 16
_SMOOTHING = 0.2
"""α of subword regularisation without a limit on the candidates (section 4.2 of the paper)."""


class Cut(NamedTuple):
    """Ids that spell a piece, and how likely they are among its finer cuts."""

    ids: tuple[int, ...]
    probability: float


def finer_cuts(pieces: ScoredPieces) -> dict[int, list[Cut]]:
    """The likeliest cuts of each piece into several, by id; pieces that have none are left out.

    Of a unigram model a cut is as likely as the product of its pieces' probabilities to the power
    of 0.2, as in subword regularisation (https://arxiv.org/abs/1804.10959). Of a BPE model the last
    merge is undone and each one below it by an even chance, in the manner of BPE-dropout
    (https://arxiv.org/abs/1910.13267).
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
    """Whether they are the order of BPE's merges, which are whole numbers, and no probabilities."""
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
    """The two pieces that BPE joins last to make this one; None if it does not come to it."""
    parts = list(piece)
    while len(parts) > 2:
        joined = [scores.get(left + right, -math.inf) for left, right in pairwise(parts)]
        place = max(range(len(joined)), key=joined.__getitem__)
        if joined[place] == -math.inf:
            return None
        parts[place : place + 2] = [parts[place] + parts[place + 1]]
    return (parts[0], parts[1]) if len(parts) == 2 and all(part in scores for part in parts) else None
