"""⑤ Greedy search and sampling: hypotheses that are independent of each other.

Every limit is a threshold on the weight of a token; tokens as likely as the last one kept are kept
too. Top-k comes first, top-p counts the probability that it left, min-p is a share of the likeliest
token's.

Shapes: N slots, K lanes, V vocabulary, R ranks that are looked at.

The number is a function of the sentence's seed, the lane and the position, and the tokens are laid
out in the order of the vocabulary: neither depends on the rest of the batch.

Shapes: N slots, K lanes, V vocabulary.

Shapes: N slots, K lanes, V vocabulary.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from model.decoding.pytorch.search.protocol import Choice, Ending, Step
from model.decoding.pytorch.search.scoring import length_divisor
from model.decoding.pytorch.slot_options import OptionRows
from model.decoding.random_numbers import (
    FIRST_MULTIPLIER,
    GOLDEN_GAMMA,
    LANE_STRIDE,
    SECOND_MULTIPLIER,
)
from model.network.slot_tensors import Columns


def truncated_weights(scores_NKV: Tensor, options: OptionRows, ranks: int) -> Tensor:
    """Probabilities up to a factor (the likeliest token has 1), 0 where cut off, (N, K, V).

    Args:
        scores_NKV: Log-probabilities; a constant more or less in a row changes nothing.
        options: Of the N slots.
        ranks: How many tokens must be put in order; see Demands.
    """
    shifted_NKV = scores_NKV - scores_NKV.amax(2, keepdim=True)
    weights_NKV = (shifted_NKV / options.temperature_N[:, None, None]).exp()
    threshold_NK1 = options.min_p_N[:, None, None].expand(*weights_NKV.shape[:2], 1)
    if ranks:
        least_NK1 = _least_kept(weights_NKV, options, min(ranks, weights_NKV.shape[2]))
        threshold_NK1 = torch.maximum(threshold_NK1, least_NK1)
    return weights_NKV.masked_fill(weights_NKV < threshold_NK1, 0.0)


def _least_kept(weights_NKV: Tensor, options: OptionRows, size: int) -> Tensor:
    """The smallest weight that top-k and top-p both keep, (N, K, 1); 0 where neither cuts."""
    ordered_NKR = weights_NKV.topk(size, 2).values
    ranks_R = torch.arange(size, device=ordered_NKR.device)
    top_k_N11 = torch.where(options.top_k_N > 0, options.top_k_N, size)[:, None, None]
    ordered_NKR = ordered_NKR.masked_fill(ranks_R >= top_k_N11, 0.0)
    cumulated_NKR = ordered_NKR.cumsum(2)
    enough_NK1 = cumulated_NKR[:, :, -1:] * options.top_p_N[:, None, None]
    is_kept_NKR = (cumulated_NKR - ordered_NKR < enough_NK1) & (ordered_NKR > 0)
    least_NK1 = ordered_NKR.masked_fill(~is_kept_NKR, torch.inf).amin(2, keepdim=True)
    cuts_N11 = ((options.top_k_N > 0) | (options.top_p_N < 1))[:, None, None]
    return least_NK1.masked_fill(~cuts_N11, 0.0)


def draw(step: Step) -> Tensor:
    """A token for every lane, (N, K), from the tempered and truncated distribution."""
    weights_NKV = truncated_weights(step.ranking_NKV, step.options, step.demands.ranks)
    cumulated_NKV = weights_NKV.cumsum(2)
    numbers_NK = uniform_numbers(step.options.seed_N, step.positions_N, weights_NKV.shape[1])
    target_NK1 = numbers_NK[..., None] * cumulated_NKV[:, :, -1:]
    tokens_NK1 = torch.searchsorted(cumulated_NKV, target_NK1, right=True)
    # Only a row without a number has no such place; what it chooses is caught as that.
    return tokens_NK1.squeeze(2).clamp_max(weights_NKV.shape[2] - 1)


def uniform_numbers(seed_N: Tensor, positions_N: Tensor, lanes: int) -> Tensor:
    """`random_numbers.uniform` of every slot and lane at once, (N, K); int64 wraps as it must."""
    lanes_K = torch.arange(lanes, device=seed_N.device)
    places_NK = lanes_K * LANE_STRIDE + positions_N[:, None] + 1
    bits_NK = seed_N[:, None] + places_NK * _signed(GOLDEN_GAMMA)
    bits_NK = (bits_NK ^ _shifted(bits_NK, 30)) * _signed(FIRST_MULTIPLIER)
    bits_NK = (bits_NK ^ _shifted(bits_NK, 27)) * _signed(SECOND_MULTIPLIER)
    bits_NK = bits_NK ^ _shifted(bits_NK, 31)
    return _shifted(bits_NK, 40).float() / 2**24


def _signed(word: int) -> int:
    """The int64 with the bits of an unsigned word."""
    return word - 2**64 if word >= 2**63 else word


def _shifted(bits: Tensor, count: int) -> Tensor:
    """Shift right; zeros come in, not the sign."""
    shifted: Tensor = (bits >> count) & (2 ** (64 - count) - 1)
    return shifted


# What is told of a lane, as the last dimension of `record`.
_SCORE, _LENGTH, _EOS_LOG_PROB = range(3)


class IndependentSearch(Columns):
    """The likeliest token of each lane, or one that is drawn; a slot is settled when all have ended."""

    def __init__(self, slots: int, lanes: int, eos_id: int, device: torch.device) -> None:
        self._eos_id = eos_id
        self._ended_NK = torch.zeros(slots, lanes, dtype=torch.bool, device=device)
        self._totals_NK = torch.zeros(slots, lanes, device=device)
        self._lengths_NK = torch.zeros(slots, lanes, dtype=torch.int64, device=device)
        self._eos_log_probs_NK = torch.zeros(slots, lanes, device=device)

    def seat(self, slots_N: Tensor) -> None:
        """Let new sentences begin in these slots."""
        self._ended_NK.index_fill_(0, slots_N, False)
        self._totals_NK.index_fill_(0, slots_N, 0.0)
        self._lengths_NK.index_fill_(0, slots_N, 0)
        self._eos_log_probs_NK.index_fill_(0, slots_N, math.nan)

    def advance(self, step: Step) -> Choice:
        """Choose every lane's next token; one for which everything is forbidden ends without a result."""
        slots = len(step.positions_N)
        ended_NK, totals_NK = self._ended_NK[:slots], self._totals_NK[:slots]
        eos_log_probs_NK = self._eos_log_probs_NK[:slots]
        tokens_NK = self._choose(step)
        log_probs_NK = step.log_probs(tokens_NK)
        totals_NK += step.score(tokens_NK).masked_fill(ended_NK, 0.0)
        self._lengths_NK[:slots] += ~ended_NK
        is_eos_NK = tokens_NK == self._eos_id
        eos_log_probs_NK.copy_(torch.where(is_eos_NK & ~ended_NK, log_probs_NK, eos_log_probs_NK))
        ended_NK |= is_eos_NK | totals_NK.isneginf()
        return Choice(tokens_NK, None, log_probs_NK, ended_NK.all(1))

    def _choose(self, step: Step) -> Tensor:
        likeliest_NK = step.ranking_NKV.argmax(2)
        if not step.demands.samples:
            return likeliest_NK
        return torch.where(step.options.is_sample_N[:, None].bool(), draw(step), likeliest_NK)

    def record(self, slots_N: Tensor, options: OptionRows) -> Tensor:
        """What `endings` needs to know of these slots, (N, K, 3)."""
        lengths_NK = self._lengths_NK[slots_N]
        scores_NK = self._totals_NK[slots_N] / length_divisor(lengths_NK.T, options).T
        return torch.stack([scores_NK, lengths_NK.float(), self._eos_log_probs_NK[slots_N]], -1)


def endings(lanes: Sequence[Sequence[float]]) -> list[Ending]:
    """Of one slot's record: every lane's result, those that produced EOS first."""
    found = []
    for lane, row in enumerate(lanes):
        finished = not math.isnan(row[_EOS_LOG_PROB])
        if row[_SCORE] > -math.inf:
            length = int(row[_LENGTH]) - finished
            found.append(Ending(row[_SCORE], length, lane, row[_EOS_LOG_PROB] if finished else None))
    return sorted(found, key=lambda e: (e.eos_log_prob is None, -e.score))
