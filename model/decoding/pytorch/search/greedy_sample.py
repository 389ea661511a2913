"""⑤ Greedy search and sampling: hypotheses that are independent of each other.

Every sampling limit is a threshold on the weight of a token; tokens as likely as the last one kept are
kept too. Top-k comes first, top-p counts the probability that top-k left, min-p is a share of the
likeliest token's.

A drawn number is a function of the sentence's seed, the row and the position, and the tokens are laid
out in the order of the vocabulary: neither depends on the rest of the batch.

Shapes: N slots, K hypotheses, V vocabulary, R ranks that are looked at.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from model.decoding.pytorch.search.step import Choice, FinalHypothesis, StepOutput, length_divisor
from model.decoding.pytorch.slot_options import OptionRows
from model.decoding.sentence import (
    FIRST_MULTIPLIER,
    GOLDEN_GAMMA,
    ROW_STRIDE,
    SECOND_MULTIPLIER,
)
from model.network.decoder_state import SlotTensors


def truncated_weights(scores_NKV: Tensor, options: OptionRows, ranks: int) -> Tensor:
    """Probabilities up to a factor (the likeliest token has 1), 0 where cut off, (N, K, V).

    Args:
        scores_NKV: Log-probabilities; adding a constant to a row changes nothing.
        options: Options of the N slots.
        ranks: How many tokens must be sorted; see ActiveFeatures.
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


def draw(step: StepOutput) -> Tensor:
    """A token for every hypothesis, (N, K), from the tempered and truncated distribution."""
    weights_NKV = truncated_weights(step.ranking_NKV, step.options, step.features.ranks)
    cumulated_NKV = weights_NKV.cumsum(2)
    numbers_NK = uniform_numbers(step.options.seed_N, step.positions_N, weights_NKV.shape[1])
    target_NK1 = numbers_NK[..., None] * cumulated_NKV[:, :, -1:]
    tokens_NK1 = torch.searchsorted(cumulated_NKV, target_NK1, right=True)
    # Only a row of NaN has no such place; its token is reported as an error.
    return tokens_NK1.squeeze(2).clamp_max(weights_NKV.shape[2] - 1)


def uniform_numbers(seed_N: Tensor, positions_N: Tensor, width: int) -> Tensor:
    """The random number of every hypothesis, in [0, 1), (N, K); int64 arithmetic wraps modulo 2⁶⁴."""
    rows_K = torch.arange(width, device=seed_N.device)
    counters_NK = rows_K * ROW_STRIDE + positions_N[:, None] + 1
    bits_NK = seed_N[:, None] + counters_NK * _signed(GOLDEN_GAMMA)
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


class IndependentRow(NamedTuple):
    """What the search knows of one hypothesis; the last dimension of `record` has these columns.

    Attributes:
        score: Log-probability over the length divisor; −inf if every token was forbidden.
        length: Tokens, EOS included.
        eos_log_prob: Log-probability of EOS; NaN if it was not produced.
    """

    score: float
    length: float
    eos_log_prob: float


class IndependentSearch(SlotTensors):
    """The likeliest token of each hypothesis, or a drawn one; a slot is settled when all have ended."""

    SLOT_TENSORS = ("_ended_NK", "_totals_NK", "_lengths_NK", "_eos_log_probs_NK")

    def __init__(self, slots: int, width: int, eos_id: int, device: torch.device) -> None:
        self._eos_id = eos_id
        self._ended_NK = torch.zeros(slots, width, dtype=torch.bool, device=device)
        self._totals_NK = torch.zeros(slots, width, device=device)
        self._lengths_NK = torch.zeros(slots, width, dtype=torch.int64, device=device)
        self._eos_log_probs_NK = torch.zeros(slots, width, device=device)

    def clear(self, slots_N: Tensor) -> None:
        """Clear these slots for new sentences."""
        self._ended_NK.index_fill_(0, slots_N, False)
        self._totals_NK.index_fill_(0, slots_N, 0.0)
        self._lengths_NK.index_fill_(0, slots_N, 0)
        self._eos_log_probs_NK.index_fill_(0, slots_N, math.nan)

    def advance(self, step: StepOutput) -> Choice:
        """Choose the next token of every hypothesis; where all are forbidden, it ends without a result."""
        slots = len(step.positions_N)
        ended_NK, totals_NK = self._ended_NK[:slots], self._totals_NK[:slots]
        eos_log_probs_NK = self._eos_log_probs_NK[:slots]
        tokens_NK = self._choose(step)
        log_probs_NK = step.log_probs(tokens_NK)
        is_open_NK = ~ended_NK & step.is_live_N[:, None]
        totals_NK += step.score(tokens_NK).masked_fill(~is_open_NK, 0.0)
        self._lengths_NK[:slots].add_(is_open_NK)  # `+=` would copy the slice
        is_eos_NK = tokens_NK == self._eos_id
        eos_log_probs_NK.copy_(torch.where(is_eos_NK & is_open_NK, log_probs_NK, eos_log_probs_NK))
        ended_NK |= is_eos_NK | totals_NK.isneginf()
        return Choice(tokens_NK, None, log_probs_NK, ended_NK.all(1))

    def tensors(self, slots: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """What the first slots hold: which hypotheses have ended, their totals, lengths and scores of EOS."""
        ended_NK, lengths_NK = self._ended_NK[:slots], self._lengths_NK[:slots]
        return ended_NK, self._totals_NK[:slots], lengths_NK, self._eos_log_probs_NK[:slots]

    def _choose(self, step: StepOutput) -> Tensor:
        likeliest_NK = step.ranking_NKV.argmax(2)
        if not step.features.sampling:
            return likeliest_NK
        return torch.where(step.options.is_sample_N[:, None].bool(), draw(step), likeliest_NK)

    def record(self, slots_N: Tensor, options: OptionRows) -> Tensor:
        """The IndependentRow of every hypothesis of these slots, (N, K, 3)."""
        lengths_NK = self._lengths_NK[slots_N]
        scores_NK = self._totals_NK[slots_N] / length_divisor(lengths_NK.T, options).T
        return torch.stack([scores_NK, lengths_NK.float(), self._eos_log_probs_NK[slots_N]], -1)


def results(rows: Sequence[IndependentRow]) -> list[FinalHypothesis]:
    """The results of one slot, those that produced EOS first."""
    found = []
    for number, row in enumerate(rows):
        finished = not math.isnan(row.eos_log_prob)
        if row.score > -math.inf:
            length = int(row.length) - finished
            found.append(FinalHypothesis(row.score, length, number, row.eos_log_prob if finished else None))
    return sorted(found, key=lambda end: (end.eos_log_prob is None, -end.score))
