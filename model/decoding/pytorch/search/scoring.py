"""⑤ Penalties that make hypotheses of different lengths and coverage comparable.

Shapes: N slots, K hypotheses, S source positions.
"""

import torch
from torch import Tensor

from model.decoding.pytorch.slot_options import OptionRows


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
