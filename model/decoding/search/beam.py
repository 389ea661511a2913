"""⑤ Beam search: the K best unfinished hypotheses go on, the best finished ones are pooled.

Shapes: N slots, K lanes (beams), C candidates, S source, V vocabulary.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from model.config import TransformerConfig
from model.decoding.scoring import Coverage, LengthPenalty
from model.decoding.search.protocol import Choice, Ending, Step
from model.decoding.search.stopping import StopRules
from model.decoding.sentence import Sentence

# What the pool holds of a finished hypothesis, as its last dimension.
SCORE, LENGTH, LANE, EOS_LOG_PROB = range(4)


class BeamSearch:
    """Beam search, each slot with its own penalties and stop rule.

    Of the 2K best continuations of a step, those among the first K that end in EOS are finished and
    the K best that do not go on: a beam of one is greedy search.
    """

    def __init__(
        self, sentences: Sequence[Sentence], config: TransformerConfig, device: torch.device
    ) -> None:
        slots, beams = len(sentences), sentences[0].options.lanes
        options = [s.options for s in sentences]
        self._eos_id = config.eos_id
        self._beams = beams
        self._penalty = LengthPenalty(options, device)
        self._rules = StopRules(sentences, device)
        self._coverage = Coverage(options, device) if any(o.coverage_penalty for o in options) else None
        self._totals_NK = torch.full((slots, beams), -math.inf, device=device)
        self._totals_NK[:, 0] = 0.0  # all beams start alike: only one may be continued
        self._num_finished_N = torch.zeros(slots, dtype=torch.int64, device=device)
        self._pool_NK4 = torch.full((slots, beams, 4), -math.inf, device=device)
        self._position = 0

    def advance(self, step: Step) -> Choice:
        """See Search."""
        if self._coverage is not None and step.attention_NKS is not None:
            self._coverage.add(step.attention_NKS, step.mask_NS)
        totals_NC, parents_NC, tokens_NC = self._candidates(step)
        is_eos_NC = tokens_NC == self._eos_id
        self._pool_finished(step, totals_NC, parents_NC, is_eos_NC)
        self._totals_NK, picked_NK = totals_NC.masked_fill(is_eos_NC, -math.inf).topk(self._beams, 1)
        tokens_NK, parents_NK = tokens_NC.gather(1, picked_NK), parents_NC.gather(1, picked_NK)
        if self._coverage is not None:
            self._coverage.reorder(parents_NK)
        self._position = step.position + 1
        log_probs_NK = _continued_log_probs(step, parents_NK, tokens_NK)
        attainable_N = self._totals_NK[:, 0] / self._penalty.divisor(self._rules.longest_N)
        settled_N = self._rules.settled(
            self._pool_NK4[..., SCORE], self._num_finished_N, attainable_N, is_eos_NC[:, 0]
        )
        return Choice(tokens_NK, parents_NK, log_probs_NK, settled_N)

    def _candidates(self, step: Step) -> tuple[Tensor, Tensor, Tensor]:
        """Totals, parents and tokens of the 2K best continuations, best first, (N, C) each."""
        size = min(2 * self._beams, step.ranking_NKV.shape[2])
        scores_NKC, tokens_NKC = step.ranking_NKV.topk(size, 2)
        totals_NKC = scores_NKC + self._totals_NK[..., None]
        totals_NC, places_NC = totals_NKC.flatten(1).topk(2 * self._beams, 1)
        return totals_NC, places_NC // size, tokens_NKC.flatten(1).gather(1, places_NC)

    def _pool_finished(self, step: Step, totals_NC: Tensor, parents_NC: Tensor, is_eos_NC: Tensor) -> None:
        totals_NK, parents_NK = totals_NC[:, : self._beams], parents_NC[:, : self._beams]
        is_finished_NK = is_eos_NC[:, : self._beams] & (totals_NK > -math.inf)
        scores_NK = totals_NK / self._penalty.divisor(step.position + 1)[:, None]
        if self._coverage is not None:
            scores_NK = scores_NK + self._coverage.penalty().gather(1, parents_NK)
        scores_NK = scores_NK.masked_fill(~is_finished_NK, -math.inf)
        eos_NK = step.model_NKV[:, :, self._eos_id].gather(1, parents_NK)
        lengths_NK = torch.full_like(scores_NK, step.position)
        new_NK4 = torch.stack([scores_NK, lengths_NK, parents_NK.to(scores_NK.dtype), eos_NK], -1)
        both_NC4 = torch.cat([self._pool_NK4, new_NK4], 1)
        best_NK = both_NC4[..., SCORE].topk(self._beams, 1).indices
        self._pool_NK4 = both_NC4.gather(1, best_NK[..., None].expand(-1, -1, 4))
        self._num_finished_N = self._num_finished_N + is_finished_NK.sum(1)

    def endings(self, slots: Sequence[int]) -> list[list[Ending]]:
        """See Search; unfinished hypotheses only where none has finished."""
        chosen = list(slots)
        scores_NK = self._totals_NK / self._penalty.divisor(self._position)[:, None]
        if self._coverage is not None:
            scores_NK = scores_NK + self._coverage.penalty()
        live = scores_NK[chosen].tolist()
        pools = self._pool_NK4[chosen].tolist()
        counts = self._rules.num_hypotheses_N[chosen].tolist()
        return [
            (_finished(pool) or _unfinished(scores, self._position))[:count]
            for pool, scores, count in zip(pools, live, counts, strict=True)
        ]

    def contenders(self, slot: int) -> list[tuple[int, int]]:
        """See Search; the live ones and the best finished one."""
        live = [
            (lane, self._position) for lane, t in enumerate(self._totals_NK[slot].tolist()) if t > -math.inf
        ]
        return live + [(e.lane, e.length) for e in _finished(self._pool_NK4[slot, :1].tolist())]

    def keep(self, slots: Sequence[int]) -> None:
        """See Search."""
        kept = torch.tensor(slots, dtype=torch.int64, device=self._totals_NK.device)
        self._penalty.keep(kept)
        self._rules.keep(kept)
        if self._coverage is not None:
            self._coverage.keep(kept)
        self._totals_NK = self._totals_NK.index_select(0, kept)
        self._num_finished_N = self._num_finished_N.index_select(0, kept)
        self._pool_NK4 = self._pool_NK4.index_select(0, kept)


def _continued_log_probs(step: Step, parents_NK: Tensor, tokens_NK: Tensor) -> Tensor:
    vocab_size = step.model_NKV.shape[2]
    return step.model_NKV.flatten(1).gather(1, parents_NK * vocab_size + tokens_NK)


def _finished(pool: Sequence[Sequence[float]]) -> list[Ending]:
    return [
        Ending(entry[SCORE], int(entry[LENGTH]), int(entry[LANE]), entry[EOS_LOG_PROB])
        for entry in pool
        if entry[SCORE] > -math.inf
    ]


def _unfinished(scores: Sequence[float], length: int) -> list[Ending]:
    endings = [Ending(s, length, lane, None) for lane, s in enumerate(scores) if s > -math.inf]
    return sorted(endings, key=lambda ending: -ending.score)
