"""⑤ Greedy search: the likeliest token, every step, in lanes that know nothing of each other.

Shapes: N slots, K lanes, V vocabulary.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from model.config import TransformerConfig
from model.decoding.scoring import LengthPenalty
from model.decoding.search.protocol import Choice, Ending, Step, token_log_probs
from model.decoding.sentence import Sentence


class GreedySearch:
    """Independent lanes; a slot is settled when all its lanes have ended."""

    def __init__(
        self, sentences: Sequence[Sentence], config: TransformerConfig, device: torch.device
    ) -> None:
        shape = (len(sentences), sentences[0].options.lanes)
        self._eos_id = config.eos_id
        self._penalty = LengthPenalty([s.options for s in sentences], device)
        self._ended_NK = torch.zeros(shape, dtype=torch.bool, device=device)
        self._totals_NK = torch.zeros(shape, device=device)
        self._lengths_NK = torch.zeros(shape, dtype=torch.int64, device=device)
        self._eos_log_probs_NK = torch.full(shape, math.nan, device=device)

    def advance(self, step: Step) -> Choice:
        """See Search; a lane for which everything is forbidden ends without a result."""
        tokens_NK = self._choose(step)
        scores_NK = step.ranking_NKV.gather(2, tokens_NK[..., None]).squeeze(2)
        log_probs_NK = token_log_probs(step, tokens_NK)
        is_eos_NK, is_live_NK = tokens_NK == self._eos_id, ~self._ended_NK
        self._totals_NK = self._totals_NK + scores_NK.masked_fill(self._ended_NK, 0.0)
        self._lengths_NK = self._lengths_NK + is_live_NK
        self._eos_log_probs_NK = torch.where(is_eos_NK & is_live_NK, log_probs_NK, self._eos_log_probs_NK)
        self._ended_NK = self._ended_NK | is_eos_NK | self._totals_NK.isneginf()
        return Choice(tokens_NK, None, log_probs_NK, self._ended_NK.all(1))

    def _choose(self, step: Step) -> Tensor:
        return step.ranking_NKV.argmax(2)

    def endings(self, slots: Sequence[int]) -> list[list[Ending]]:
        """See Search; every lane's result, those that produced EOS first."""
        scores_NK = self._totals_NK / self._penalty.divisor(self._lengths_NK.T).T
        packed_NK3 = torch.stack([scores_NK, self._lengths_NK.float(), self._eos_log_probs_NK], -1)
        return [_ranked(lanes) for lanes in packed_NK3[list(slots)].tolist()]

    def contenders(self, slot: int) -> list[tuple[int, int]]:
        """See Search; all lanes, those that have ended too."""
        ended = (~self._eos_log_probs_NK[slot].isnan()).long()
        return list(enumerate((self._lengths_NK[slot] - ended).tolist()))

    def keep(self, slots: Sequence[int]) -> None:
        """See Search."""
        kept = torch.tensor(slots, dtype=torch.int64, device=self._totals_NK.device)
        self._penalty.keep(kept)
        self._ended_NK = self._ended_NK.index_select(0, kept)
        self._totals_NK = self._totals_NK.index_select(0, kept)
        self._lengths_NK = self._lengths_NK.index_select(0, kept)
        self._eos_log_probs_NK = self._eos_log_probs_NK.index_select(0, kept)


def _ranked(lanes: Sequence[tuple[float, float, float]]) -> list[Ending]:
    endings = []
    for lane, (score, length, eos) in enumerate(lanes):
        finished = not math.isnan(eos)
        if score > -math.inf:
            endings.append(Ending(score, int(length) - finished, lane, eos if finished else None))
    return sorted(endings, key=lambda e: (e.eos_log_prob is None, -e.score))
