"""⑤ Sampling: one uniform number a token, turned into a token by the inverse of the distribution.

The numbers are the sentence's own (see model.decoding.random_numbers), and the tokens are
laid out in the order of the vocabulary: neither depends on the rest of the batch.

Shapes: N slots, K lanes, C longest translation, V vocabulary, R ranks that are looked at.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from model.config import TransformerConfig
from model.decoding.random_numbers import uniform
from model.decoding.search.greedy import GreedySearch
from model.decoding.search.protocol import Step
from model.decoding.sentence import Sentence
from model.request import DecodeOptions


class SampleSearch(GreedySearch):
    """Independent draws from the network's distribution, tempered and truncated; a draw a lane."""

    def __init__(
        self, sentences: Sequence[Sentence], config: TransformerConfig, device: torch.device
    ) -> None:
        super().__init__(sentences, config, device)
        self._truncation = Truncation([s.options for s in sentences], device)
        longest = max(s.longest for s in sentences)
        numbers = [_uniform_numbers(s, longest) for s in sentences]
        self._numbers_NKC = torch.stack(numbers).to(device)

    def _choose(self, step: Step) -> Tensor:
        weights_NKV = self._truncation.weights(step.ranking_NKV)
        cumulated_NKV = weights_NKV.cumsum(2)
        target_NK1 = self._numbers_NKC[:, :, step.position, None] * cumulated_NKV[:, :, -1:]
        tokens_NK1 = torch.searchsorted(cumulated_NKV, target_NK1, right=True)
        # Only a row without a number has no such place; what it chooses is caught as that.
        return tokens_NK1.squeeze(2).clamp_max(step.ranking_NKV.shape[2] - 1)

    def keep(self, slots: Sequence[int]) -> None:
        """See Search."""
        super().keep(slots)
        kept = torch.tensor(slots, dtype=torch.int64, device=self._numbers_NKC.device)
        self._truncation.keep(kept)
        self._numbers_NKC = self._numbers_NKC.index_select(0, kept)


class Truncation:
    """Temperature, and the limits that cut the tail of a distribution, each slot by its own options.

    Every limit is a threshold on the weight of a token; tokens as likely as the last one kept are
    kept too. Top-k comes first, top-p counts the probability that it left, min-p is a share of the
    likeliest token's.
    """

    def __init__(self, options: Sequence[DecodeOptions], device: torch.device) -> None:
        self._temperature_N = torch.tensor([o.temperature for o in options], device=device)
        self._top_k_N = torch.tensor([o.top_k for o in options], device=device)
        self._top_p_N = torch.tensor([o.top_p for o in options], device=device)
        self._min_p_N = torch.tensor([o.min_p for o in options], device=device)
        cuts = [o for o in options if o.top_k > 0 or o.top_p < 1]
        self._cuts_N = torch.tensor([o in cuts for o in options], device=device)
        # How many tokens must be put in order: None is all of them, 0 none.
        self._ordered: int | None = max((o.top_k for o in cuts), default=0)
        if any(o.top_k == 0 for o in cuts):
            self._ordered = None

    def weights(self, scores_NKV: Tensor) -> Tensor:
        """Probabilities up to a factor (the likeliest token has 1), 0 where cut off, (N, K, V)."""
        shifted_NKV = scores_NKV - scores_NKV.amax(2, keepdim=True)
        weights_NKV = (shifted_NKV / self._temperature_N[:, None, None]).exp()
        threshold_NK1 = self._min_p_N[:, None, None].expand(*weights_NKV.shape[:2], 1)
        if self._ordered != 0:
            threshold_NK1 = torch.maximum(threshold_NK1, self._least_in_order(weights_NKV))
        return weights_NKV.masked_fill(weights_NKV < threshold_NK1, 0.0)

    def _least_in_order(self, weights_NKV: Tensor) -> Tensor:
        """The smallest weight that top-k and top-p both keep, (N, K, 1)."""
        size = min(self._ordered or weights_NKV.shape[2], weights_NKV.shape[2])
        ordered_NKR = weights_NKV.topk(size, 2).values
        ranks_R = torch.arange(size, device=ordered_NKR.device)
        top_k_N = torch.where(self._top_k_N > 0, self._top_k_N, size)
        ordered_NKR = ordered_NKR.masked_fill(ranks_R >= top_k_N[:, None, None], 0.0)
        cumulated_NKR = ordered_NKR.cumsum(2)
        before_NKR = cumulated_NKR - ordered_NKR
        enough_NK1 = cumulated_NKR[:, :, -1:] * self._top_p_N[:, None, None]
        is_kept_NKR = (before_NKR < enough_NK1) & (ordered_NKR > 0)
        least_NK = ordered_NKR.masked_fill(~is_kept_NKR, torch.inf).amin(2)
        return least_NK.masked_fill(~self._cuts_N[:, None], 0.0)[..., None]

    def keep(self, slots: Tensor) -> None:
        """Drop all slots but these."""
        self._temperature_N = self._temperature_N.index_select(0, slots)
        self._top_k_N = self._top_k_N.index_select(0, slots)
        self._top_p_N = self._top_p_N.index_select(0, slots)
        self._min_p_N = self._min_p_N.index_select(0, slots)
        self._cuts_N = self._cuts_N.index_select(0, slots)


def _uniform_numbers(sentence: Sentence, capacity: int) -> Tensor:
    return torch.tensor(
        [
            [uniform(sentence.seed, lane, position) for position in range(capacity)]
            for lane in range(sentence.rows)
        ]
    )
