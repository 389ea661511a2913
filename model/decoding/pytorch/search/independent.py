"""⑤ Greedy search and sampling: lanes that know nothing of each other.

Shapes: N slots, K lanes, V vocabulary.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from model.columns import Columns
from model.decoding.pytorch.scoring import length_divisor
from model.decoding.pytorch.search.protocol import Choice, Ending, Step
from model.decoding.pytorch.search.sample import draw
from model.decoding.pytorch.slot_options import OptionRows

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
