"""Shortlists for tests."""

import numpy as np

from model.checkpoint.shortlist import Shortlist
from tests.model.decoding.networks import EOS, VOCAB


def small_shortlist(seed: int = 1, per_token: int = 3) -> Shortlist:
    """EOS and one more token for all sentences of the tests' vocabulary, and a few for each source token."""
    generator = np.random.default_rng(seed)
    lists = [generator.choice(np.arange(4, VOCAB), per_token, replace=False) for _ in range(VOCAB)]
    return shortlist_of([EOS, 4], [ids.tolist() for ids in lists])


def shortlist_of(always: list[int], lists: list[list[int]]) -> Shortlist:
    """These, for source ids 0, 1, …."""
    return Shortlist(
        always=np.array(always, dtype=np.int32),
        offsets=np.cumsum([0, *map(len, lists)], dtype=np.int32),
        candidates=np.array([token for ids in lists for token in ids], dtype=np.int32),
    )
