"""⑤ Penalties that make hypotheses of different lengths and coverage comparable.

Shapes: N slots, K lanes, S source positions.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from model.request import DecodeOptions


class LengthPenalty:
    """Divisor of log-probabilities, each slot by its own options.

    `power`: |Y|^α; `gnmt`: ((5 + |Y|) / 6)^α, eq. 14 of Wu et al. 2016
    (https://arxiv.org/abs/1609.08144). |Y| counts EOS. It never falls as |Y| grows, on which beam
    search's early stop relies.
    """

    def __init__(self, options: Sequence[DecodeOptions], device: torch.device) -> None:
        is_gnmt = [o.length_penalty_form == "gnmt" for o in options]
        self._alpha_N = torch.tensor([o.length_penalty for o in options], device=device)
        self._offset_N = torch.tensor([5.0 if gnmt else 0.0 for gnmt in is_gnmt], device=device)
        self._scale_N = torch.tensor([6.0 if gnmt else 1.0 for gnmt in is_gnmt], device=device)

    def divisor(self, lengths: Tensor | int) -> Tensor:
        """The divisor, at least 1 for lengths of at least 1.

        Args:
            lengths: Tokens, EOS included: one number for all slots, (N,), or (K, N).

        Returns:
            Shape (N,) or (K, N).
        """
        return ((self._offset_N + lengths) / self._scale_N) ** self._alpha_N

    def keep(self, slots: Tensor) -> None:
        """Drop all slots but these."""
        self._alpha_N = self._alpha_N.index_select(0, slots)
        self._offset_N = self._offset_N.index_select(0, slots)
        self._scale_N = self._scale_N.index_select(0, slots)


class Coverage:
    """How much attention each live hypothesis has paid to each source token, and what that costs.

    β · Σ_i log(min(Σ_j a_ij, 1)), from the same equation: source tokens that were hardly attended to
    count against a hypothesis.
    """

    def __init__(self, options: Sequence[DecodeOptions], device: torch.device) -> None:
        self._beta_N = torch.tensor([o.coverage_penalty for o in options], device=device)
        self._sums_NKS = torch.zeros(1, 1, 1, device=device)
        self._mask_NS = torch.ones(1, 1, dtype=torch.bool, device=device)

    def add(self, attention_NKS: Tensor, mask_NS: Tensor) -> None:
        """Count one step's attention.

        Args:
            attention_NKS: Weights over the source, each lane's row summing to 1.
            mask_NS: True where a source token is real.
        """
        self._sums_NKS = self._sums_NKS + attention_NKS
        self._mask_NS = mask_NS

    def penalty(self) -> Tensor:
        """What to add to the scores, (N, K), at most 0."""
        least = torch.finfo(self._sums_NKS.dtype).tiny  # an ignored token costs much, but not −inf
        costs_NKS = self._sums_NKS.clamp(least, 1.0).log() * self._mask_NS[:, None]
        return costs_NKS.sum(2) * self._beta_N[:, None]

    def reorder(self, parents_NK: Tensor) -> None:
        """Let lane k continue what lane `parents_NK[n, k]` of its slot has covered."""
        self._sums_NKS = take_lanes(self._sums_NKS, parents_NK)

    def keep(self, slots: Tensor) -> None:
        """Drop all slots but these."""
        self._beta_N = self._beta_N.index_select(0, slots)
        self._sums_NKS = self._sums_NKS.index_select(0, slots)
        self._mask_NS = self._mask_NS.index_select(0, slots)


def take_lanes(values_NKX: Tensor, parents_NK: Tensor) -> Tensor:
    """Row k of slot n becomes row `parents_NK[n, k]` of the same slot; X is any width."""
    return values_NKX.gather(1, parents_NK[..., None].expand(-1, -1, values_NKX.shape[2]))
