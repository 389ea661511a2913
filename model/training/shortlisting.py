"""ⓕ Parallel text → the shortlist of a checkpoint."""

import numpy as np
from numpy.typing import NDArray

from model.shortlist import Ids, Shortlist
from model.text.tokenizer import Tokenizer
from model.training.lexicon import Lexicon
from model.training.parallel_ids import ParallelIds


def make_shortlist(
    pairs: ParallelIds, lexicon: Lexicon, tokenizer: Tokenizer, *, per_token: int, always: int
) -> Shortlist:
    """The likeliest translations of every source token, and the most frequent target tokens for all.

    Where both sides share a vocabulary, a token is always a candidate of its own: names and numbers
    can be copied. EOS always is one.

    Args:
        pairs: Parallel text.
        lexicon: Learned from it.
        tokenizer: Of the checkpoint; the ids are its own.
        per_token: Translations of each source token, beside those.
        always: Frequent target tokens, or fewer if the text has fewer.
    """
    frequent = _frequent(pairs.targets, always, tokenizer.eos_id)
    sources, targets = lexicon.best(per_token, without=frequent)
    if tokenizer.is_shared:
        own = np.arange(tokenizer.source_vocab_size)
        sources, targets = np.concatenate([sources, own]), np.concatenate([targets, own])
    keys = np.unique(sources * tokenizer.target_vocab_size + targets)
    lengths = np.bincount(keys // tokenizer.target_vocab_size, minlength=tokenizer.source_vocab_size)
    return Shortlist(
        always=frequent,
        offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32),
        candidates=(keys % tokenizer.target_vocab_size).astype(np.int32),
    )


def _frequent(ids: NDArray[np.int32], count: int, eos_id: int) -> Ids:
    frequencies = np.bincount(ids)
    order = np.argsort(-frequencies, kind="stable")[:count]
    return np.union1d(order[frequencies[order] > 0], [eos_id]).astype(np.int32)
