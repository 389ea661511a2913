"""⑤ Beam search: the K best unfinished hypotheses go on, the best finished ones are pooled.

Shapes: N slots, K lanes (beams).

Shapes: N slots, K lanes (beams), C candidates, S source, V vocabulary.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from model.decoding.pytorch.search.protocol import Choice, Ending, Step
from model.decoding.pytorch.search.scoring import coverage_cost, length_divisor, take_lanes
from model.decoding.pytorch.slot_options import OptionRows
from model.network.slot_tensors import Columns


def is_settled(
    finished_NK: Tensor,
    num_finished_N: Tensor,
    leading_N: Tensor,
    attainable_N: Tensor,
    top_has_ended_N: Tensor,
    options: OptionRows,
) -> Tensor:
    """Whether each slot's own stop rule says so, (N,).

    A slot is settled
    - by any rule, when no live hypothesis can still enter the n best (`all` has only this one);
    - by `patience`, when patience × K hypotheses, and at least n, have finished and none under way is
      ahead of the best: those that finish first are not always worth most;
    - by `first`, when the best continuation of a step ends in EOS.

    The first cut loses nothing: log-probabilities only fall, the divisor only grows with the length
    and the coverage penalty is at most 0, so that a live hypothesis will score at most its
    log-probability so far over the divisor at the longest length.

    Args:
        finished_NK: Scores of the best finished hypotheses, best first, −inf where there is none.
        num_finished_N: Hypotheses that have finished so far.
        leading_N: The score so far of the best live hypothesis; −inf if none lives.
        attainable_N: The best score that a live hypothesis can still reach; −inf if none lives.
        top_has_ended_N: Whether the best continuation of this step ends in EOS.
        options: Of the N slots.
    """
    wanted_N1 = options.num_hypotheses_N[:, None].clamp(1, finished_NK.shape[1])
    worst_N = finished_NK.gather(1, wanted_N1 - 1).squeeze(1)
    is_enough_N = (num_finished_N >= options.enough_N) & (finished_NK[:, 0] >= leading_N)
    ends_at_first_N = top_has_ended_N & options.stops_at_first_N.bool()
    return (worst_N >= attainable_N) | is_enough_N | ends_at_first_N


# What the pool holds of a finished hypothesis, as its last dimension; a record ends with the score
# of the lane's live one.
_SCORE, _LENGTH, _LANE, _EOS_LOG_PROB, _LIVE_SCORE = range(5)


class BeamSearch(Columns):
    """Beam search, each slot with its own penalties and stop rule.

    Of the 2K best continuations of a step, those among the first K that end in EOS are finished and
    the K best that do not go on: a beam of one is greedy search.
    """

    def __init__(
        self, slots: int, beams: int, source_capacity: int, eos_id: int, device: torch.device
    ) -> None:
        self._eos_id, self._beams = eos_id, beams
        self._totals_NK = torch.zeros(slots, beams, device=device)
        self._num_finished_N = torch.zeros(slots, dtype=torch.int64, device=device)
        self._pool_NK4 = torch.zeros(slots, beams, 4, device=device)
        self._covered_NKS = torch.zeros(slots, beams, source_capacity, device=device)

    def seat(self, slots_N: Tensor) -> None:
        """Let new sentences begin in these slots."""
        self._totals_NK.index_fill_(0, slots_N, -math.inf)
        self._totals_NK[slots_N, 0] = 0.0  # all beams start alike: only one may be continued
        self._num_finished_N.index_fill_(0, slots_N, 0)
        self._pool_NK4.index_fill_(0, slots_N, -math.inf)
        self._covered_NKS.index_fill_(0, slots_N, 0.0)

    def advance(self, step: Step) -> Choice:
        """Choose who is continued, and with what."""
        slots = len(step.positions_N)
        if step.attention_NKS is not None:
            self._covered_NKS[:slots, :, : step.attention_NKS.shape[2]] += step.attention_NKS
        totals_NC, parents_NC, tokens_NC = self._candidates(step)
        is_eos_NC = tokens_NC == self._eos_id
        self._pool_finished(step, totals_NC, parents_NC, is_eos_NC)
        totals_NK, picked_NK = totals_NC.masked_fill(is_eos_NC, -math.inf).topk(self._beams, 1)
        tokens_NK, parents_NK = tokens_NC.gather(1, picked_NK), parents_NC.gather(1, picked_NK)
        self._totals_NK[:slots] = totals_NK
        if step.demands.coverage:
            self._covered_NKS[:slots] = take_lanes(self._covered_NKS[:slots], parents_NK)
        scores_NK = totals_NK / length_divisor(step.positions_N + 1, step.options)[:, None]
        if step.demands.coverage:
            scores_NK = scores_NK + self._coverage_cost(step)
        log_probs_NK = _log_probs(step, parents_NK, tokens_NK)
        attainable_N = totals_NK[:, 0] / length_divisor(step.options.longest_N, step.options)
        pooled_NK, num_finished_N = self._pool_NK4[:slots, :, _SCORE], self._num_finished_N[:slots]
        settled_N = is_settled(
            pooled_NK, num_finished_N, scores_NK.amax(1), attainable_N, is_eos_NC[:, 0], step.options
        )
        return Choice(tokens_NK, parents_NK, log_probs_NK, settled_N)

    def _candidates(self, step: Step) -> tuple[Tensor, Tensor, Tensor]:
        """Totals, parents and tokens of the 2K best continuations, best first, (N, C) each."""
        size = min(2 * self._beams, step.ranking_NKV.shape[2])
        scores_NKC, tokens_NKC = step.ranking_NKV.topk(size, 2)
        before_NK = self._totals_NK[: len(scores_NKC)]
        totals_NKC = scores_NKC + before_NK[..., None]
        totals_NC, places_NC = totals_NKC.flatten(1).topk(2 * self._beams, 1)
        parents_NC = places_NC.div(size, rounding_mode="floor")
        return totals_NC, parents_NC, tokens_NKC.flatten(1).gather(1, places_NC)

    def _pool_finished(self, step: Step, totals_NC: Tensor, parents_NC: Tensor, is_eos_NC: Tensor) -> None:
        pool_NK4 = self._pool_NK4[: len(totals_NC)]
        totals_NK, parents_NK = totals_NC[:, : self._beams], parents_NC[:, : self._beams]
        is_finished_NK = is_eos_NC[:, : self._beams] & (totals_NK > -math.inf)
        scores_NK = totals_NK / length_divisor(step.positions_N + 1, step.options)[:, None]
        if step.demands.coverage:
            scores_NK = scores_NK + self._coverage_cost(step).gather(1, parents_NK)
        scores_NK = scores_NK.masked_fill(~is_finished_NK, -math.inf)
        eos_NK = step.model_NKV[:, :, self._eos_id].gather(1, parents_NK)
        lengths_NK = step.positions_N[:, None].to(scores_NK.dtype).expand_as(scores_NK)
        new_NK4 = torch.stack([scores_NK, lengths_NK, parents_NK.to(scores_NK.dtype), eos_NK], -1)
        both_NC4 = torch.cat([pool_NK4, new_NK4], 1)
        best_NK = both_NC4[..., _SCORE].topk(self._beams, 1).indices
        pool_NK4.copy_(both_NC4.gather(1, best_NK[..., None].expand(-1, -1, 4)))
        self._num_finished_N[: len(totals_NC)] += is_finished_NK.sum(1)

    def _coverage_cost(self, step: Step) -> Tensor:
        """Of the hypotheses as they are now, (N, K)."""
        slots, source_length = step.is_source_NS.shape
        return coverage_cost(self._covered_NKS[:slots, :, :source_length], step.is_source_NS, step.options)

    def record(
        self, slots_N: Tensor, positions_N: Tensor, is_source_NS: Tensor, options: OptionRows
    ) -> Tensor:
        """What `endings` needs to know of these slots, (N, K, 5)."""
        scores_NK = self._totals_NK[slots_N] / length_divisor(positions_N, options)[:, None]
        covered_NKS = self._covered_NKS[slots_N, :, : is_source_NS.shape[1]]
        costs_NK = coverage_cost(covered_NKS, is_source_NS, options)
        is_priced_N1 = (options.coverage_penalty_N > 0)[:, None]
        scores_NK = torch.where(is_priced_N1, scores_NK + costs_NK, scores_NK)
        return torch.cat([self._pool_NK4[slots_N], scores_NK[..., None]], -1)


def endings(lanes: Sequence[Sequence[float]], length: int, count: int) -> list[Ending]:
    """Of one slot's record: its results; unfinished hypotheses only where none has finished."""
    return (_finished(lanes) or _unfinished(lanes, length))[:count]


def contenders(lanes: Sequence[Sequence[float]], length: int) -> list[Ending]:
    """Of one slot's record: what its best result is or continues, the live ones and the best finished."""
    return _unfinished(lanes, length) + _finished(lanes)[:1]


def _log_probs(step: Step, parents_NK: Tensor, tokens_NK: Tensor) -> Tensor:
    places_NK = parents_NK * step.model_NKV.shape[2] + tokens_NK
    return step.model_NKV.flatten(1).gather(1, places_NK)


def _finished(lanes: Sequence[Sequence[float]]) -> list[Ending]:
    return [
        Ending(row[_SCORE], int(row[_LENGTH]), int(row[_LANE]), row[_EOS_LOG_PROB])
        for row in lanes
        if row[_SCORE] > -math.inf
    ]


def _unfinished(lanes: Sequence[Sequence[float]], length: int) -> list[Ending]:
    live = [(lane, row[_LIVE_SCORE]) for lane, row in enumerate(lanes)]
    found = [Ending(score, length, lane, None) for lane, score in live if score > -math.inf]
    return sorted(found, key=lambda ending: -ending.score)
