"""⑤ What a search gets from a step, how it scores hypotheses, and what it makes of them.

Shapes: N slots, K hypotheses, S source, V vocabulary.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from model.decoding.pytorch.slot_options import ActiveFeatures, OptionRows


@dataclass(frozen=True)
class StepOutput:
    """What one decoder step computed: the scores to choose from.

    Attributes:
        positions_N: Tokens that each slot has produced before this step.
        ranking_NKV: Log-probabilities under the constraints: what to choose by; −inf is forbidden.
        model_NKV: Log-probabilities as the network gives them, except where forbidden: what to report.
            The same tensor where no constraint changes values.
        attention_NKS: Cross-attention of this step; None if no feature uses it.
        is_source_NS: True where a source token is real.
        is_live_N: False where the search was complete before this step: nothing may change there.
        options: Options of these slots.
        features: Features that any sentence of the batch uses.
    """

    positions_N: Tensor
    ranking_NKV: Tensor
    model_NKV: Tensor
    attention_NKS: Tensor | None
    is_source_NS: Tensor
    is_live_N: Tensor
    options: OptionRows
    features: ActiveFeatures

    def log_probs(self, tokens_NK: Tensor) -> Tensor:
        """The network's log-probability of one token per hypothesis, (N, K)."""
        return _at(self.model_NKV, tokens_NK)

    def score(self, tokens_NK: Tensor) -> Tensor:
        """The log-probability to rank by of one token per hypothesis, (N, K)."""
        return _at(self.ranking_NKV, tokens_NK)


@dataclass(frozen=True)
class Choice:
    """What a search made of one step.

    Attributes:
        tokens_NK: The token that each hypothesis goes on with.
        parents_NK: The row whose hypothesis it continues; None if each row continues its own.
        log_probs_NK: The network's log-probability of that token.
        settled_N: True where the search of the slot is complete.
    """

    tokens_NK: Tensor
    parents_NK: Tensor | None
    log_probs_NK: Tensor
    settled_N: Tensor


@dataclass(frozen=True)
class FinalHypothesis:
    """Where a hypothesis ends in the backpointers of its slot.

    Attributes:
        score: What the search ranks by.
        length: Tokens before EOS.
        row: The row that produced the last of them.
        eos_log_prob: The network's log-probability of EOS; None if the length limit ended it.
    """

    score: float
    length: int
    row: int
    eos_log_prob: float | None


def _at(values_NKV: Tensor, tokens_NK: Tensor) -> Tensor:
    return values_NKV.gather(2, tokens_NK[..., None]).squeeze(2)


def length_divisor(lengths: Tensor, options: OptionRows) -> Tensor:
    """Divisor of log-probabilities, each slot by its own options; at least 1 for lengths of at least 1.

    `power`: |Y|^α; `gnmt`: ((5 + |Y|) / 6)^α, eq. 14 of Wu et al. 2016
    (https://arxiv.org/abs/1609.08144). |Y| counts EOS. The divisor never falls as |Y|
    grows; the early stop of beam search relies on that.

    Args:
        lengths: Tokens, EOS included, (N,) or (K, N).
        options: Options of the N slots.
    """
    return ((options.length_offset_N + lengths) / options.length_scale_N) ** options.length_exponent_N


def coverage_cost(sums_NKS: Tensor, is_source_NS: Tensor, options: OptionRows) -> Tensor:
    """Penalty of a hypothesis for source tokens with little attention, (N, K), at most 0.

    β · Σ_i log(min(Σ_j a_ij, 1)), from the same equation.

    Args:
        sums_NKS: Sum of the attention of each hypothesis to each source token so far.
        is_source_NS: True where a source token is real.
        options: Options of the N slots.
    """
    least = torch.finfo(sums_NKS.dtype).tiny  # an ignored token costs much, but not −inf
    costs_NKS = sums_NKS.clamp(least, 1.0).log().masked_fill(~is_source_NS[:, None], 0.0)
    return costs_NKS.sum(2) * options.coverage_penalty_N[:, None]


def take_rows(values_NKX: Tensor, parents_NK: Tensor) -> Tensor:
    """Row k of slot n becomes row `parents_NK[n, k]` of the same slot; X is any width."""
    return values_NKX.gather(1, parents_NK[..., None].expand(-1, -1, values_NKX.shape[2]))
