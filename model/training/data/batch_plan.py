"""ⓓ Which pairs an epoch draws and which of them share a batch: pure arithmetic on lengths and a seed."""

import hashlib
import json
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from model.training.data.config import BatchConfig
from model.training.data.pair_dataset import PairDataset
from model.training.data.token_store import Indices, Lengths

_BUCKETS_PER_DOUBLING = 8
_FORM = 1
"""Of the order that follows from data, budget and seed; a saved position belongs to one."""


@dataclass(frozen=True, kw_only=True)
class BatchPlan:
    """The batches of one epoch, in the order they are trained on.

    Attributes:
        batches: Indices of the pairs of each.
        tokens: Source and target tokens of all of them.
        padded_tokens: The same with the padding that batching adds.
    """

    batches: list[Indices]
    tokens: int
    padded_tokens: int

    @property
    def padding_share(self) -> float:
        """Padding over all positions computed."""
        return 1 - self.tokens / self.padded_tokens


class EpochPlanner:
    """Plans the epochs of one run, the same in each of its processes; thread-safe.

    Args:
        dataset: Whose pairs are drawn.
        config: Budget of a batch.
        lengths: Tokens of each source and target to plan with.
        seed: Of the order.

    Attributes:
        fingerprint: Of everything the order depends on.
    """

    def __init__(
        self,
        dataset: PairDataset,
        config: BatchConfig,
        *,
        lengths: tuple[Lengths, Lengths],
        seed: int,
    ) -> None:
        self._weights = dataset.weights
        self._lengths = lengths
        self._config = config
        self._seed = seed
        budget = [config.max_tokens, config.max_sentences, config.pool_size]
        dropout = [rate for rate in (config.piece_dropout, config.target_piece_dropout) if rate]
        order = json.dumps([dataset.index.fingerprint, budget, seed, _FORM, *dropout])
        self.fingerprint = hashlib.sha256(order.encode()).hexdigest()
        self.plan = lru_cache(maxsize=2)(self._plan)

    def _plan(self, epoch: int) -> BatchPlan:
        return plan_epoch(*self._lengths, self._weights, self._config, [self._seed, epoch])


def plan_epoch(
    source_lengths: Lengths,
    target_lengths: Lengths,
    weights: npt.NDArray[np.float64],
    config: BatchConfig,
    seed: list[int],
) -> BatchPlan:
    """Draw, shuffle, group by length, and shuffle the groups; the same for the same arguments.

    Args:
        source_lengths: Tokens of each pair's source, shape (pairs,).
        target_lengths: Tokens of each pair's target, shape (pairs,).
        weights: How often each pair is drawn, shape (pairs,).
        config: Budget of a batch and size of the pool that is sorted by length.
        seed: What the randomness starts from: the seed of the run and the epoch.
    """
    generator = np.random.default_rng(seed)
    drawn = generator.permutation(_draw(weights, generator))
    batches: list[Indices] = []
    for start in range(0, len(drawn), config.pool_size):
        pool = drawn[start : start + config.pool_size]
        pool = pool[_length_order(source_lengths[pool], target_lengths[pool])]
        cuts = _cut(source_lengths[pool], target_lengths[pool], config)
        groups = np.split(pool, cuts)
        batches.extend(groups[place] for place in generator.permutation(len(groups)))
    tokens = int(source_lengths[drawn].sum() + target_lengths[drawn].sum())
    padded = sum(len(b) * int(source_lengths[b].max() + target_lengths[b].max()) for b in batches)
    return BatchPlan(batches=batches, tokens=tokens, padded_tokens=padded)


def _draw(weights: npt.NDArray[np.float64], generator: np.random.Generator) -> Indices:
    """Each index as often as the whole part of its weight says, once more by chance of the rest."""
    whole = np.floor(weights)
    times = (whole + (generator.random(len(weights)) < weights - whole)).astype(np.int64)
    if not times.any():
        times[generator.integers(len(times))] = 1  # no epoch is empty
    return np.repeat(np.arange(len(weights)), times)


def _length_order(source_lengths: Lengths, target_lengths: Lengths) -> Indices:
    """Order in which neighbours have similar sources and similar targets.

    Sources fall in buckets whose width grows with their length; inside a bucket pairs go by
    target length, up in one bucket and down in the next, so that no cut falls between extremes.
    """
    buckets = np.floor(np.log2(source_lengths) * _BUCKETS_PER_DOUBLING).astype(np.int64)
    direction = np.where(buckets % 2 == 0, 1, -1)
    return np.lexsort((source_lengths, target_lengths * direction, buckets))


def _cut(source_lengths: Lengths, target_lengths: Lengths, config: BatchConfig) -> list[int]:
    """Where each batch but the first begins, filling each to its budget."""
    cuts: list[int] = []
    start = longest_source = longest_target = 0
    for place, (source, target) in enumerate(
        zip(source_lengths.tolist(), target_lengths.tolist(), strict=True)
    ):
        longest_source, longest_target = max(longest_source, source), max(longest_target, target)
        size = place - start + 1
        too_large = config.max_sentences is not None and size > config.max_sentences
        if size > 1 and (too_large or size * (longest_source + longest_target) > config.max_tokens):
            cuts.append(place)
            start, longest_source, longest_target = place, source, target
    return cuts
