"""⑤ Beam search: the K best unfinished hypotheses go on, the best finished ones are pooled.

Shapes: N slots, K beams, C candidates, S source, V vocabulary.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from model.decode_request import STOPS
from model.decoding.pytorch.search.phrases import PhraseBanks
from model.decoding.pytorch.search.step import (
    Choice,
    FinalHypothesis,
    StepOutput,
    coverage_cost,
    length_divisor,
    take_rows,
)
from model.decoding.pytorch.slot_options import OptionRows
from model.network.decoder_state import SlotTensors

_FIRST, _COUNT, _POOL = map(STOPS.index, ("first", "count", "pool"))


def is_settled(
    finished_NK: Tensor,
    num_finished_N: Tensor,
    leading_N: Tensor,
    attainable_N: Tensor,
    top_has_ended_N: Tensor,
    options: OptionRows,
) -> Tensor:
    """Returns whether the search of each slot is complete by its own stop rule, (N,).

    A slot is settled
    - by any rule, when no live hypothesis can still enter the n best (`all` has only this rule);
    - by `patience`, when patience × K hypotheses, and at least n, have finished and no live hypothesis
      is ahead of the best: the first to finish are not always the best;
    - by `first`, when the best continuation of a step ends in EOS;
    - by `count`, when patience × K hypotheses, and at least n, have finished;
    - by `pool`, when no live hypothesis is ahead of the worst of the K best.

    The first rule loses nothing: log-probabilities only fall, the divisor only grows with the length
    and the coverage penalty is at most 0. So a live hypothesis will score at most its log-probability
    so far over the divisor at the longest length.

    Args:
        finished_NK: Scores of the best finished hypotheses, best first, −inf where there is none.
        num_finished_N: Hypotheses that have finished so far.
        leading_N: The score so far of the best live hypothesis; −inf if there is none.
        attainable_N: The best score that a live hypothesis can still reach; −inf if there is none.
        top_has_ended_N: Whether the best continuation of this step ends in EOS.
        options: Options of the N slots.
    """
    worst_N = _worst_returned(finished_NK, options)
    to_beat_N = torch.where(options.stop_N == _POOL, finished_NK[:, -1], finished_NK[:, 0])
    is_ahead_N = (to_beat_N >= leading_N) | (options.stop_N == _COUNT)
    is_enough_N = (num_finished_N >= options.enough_N) & is_ahead_N
    ends_at_first_N = top_has_ended_N & (options.stop_N == _FIRST)
    return (worst_N >= attainable_N) | is_enough_N | ends_at_first_N


class BeamRow(NamedTuple):
    """A finished hypothesis of the pool and a live one; the last dimension of `record` has these columns.

    Attributes:
        score: Score of the finished hypothesis; −inf if there is none.
        length: Its tokens before EOS.
        row: The row that produced the last of them.
        eos_log_prob: Log-probability of EOS.
        live_score: Score of the live hypothesis of this row; −inf if there is none.
    """

    score: float
    length: float
    row: float
    eos_log_prob: float
    live_score: float


_SCORE = BeamRow._fields.index("score")
_POOL_COLUMNS = len(BeamRow._fields) - 1  # the pool has all but the live score


class BeamSearch(SlotTensors):
    """Beam search, each slot with its own penalties and stop rule.

    Of the 2K best continuations of a step, those among the first K that end in EOS are finished and
    the K best that do not go on: a beam of one is greedy search. With required phrases, PhraseBanks sorts the
    continuations and removes most.

    Attributes:
        phrases: What the hypotheses lack of the required phrases.
        num_likeliest: Tokens of a hypothesis that a step chooses among, where there are no phrases.
    """

    SLOT_TENSORS = ("_totals_NK", "_num_finished_N", "_pool_NKX", "_covered_NKS")

    def __init__(
        self,
        slots: int,
        beams: int,
        source_capacity: int,
        vocab_size: int,
        eos_id: int,
        device: torch.device,
    ) -> None:
        self._eos_id, self._beams, self.num_likeliest = eos_id, beams, min(2 * beams, vocab_size)
        self.phrases = PhraseBanks(slots, beams, vocab_size, eos_id, device)
        self._totals_NK = torch.zeros(slots, beams, device=device)
        self._num_finished_N = torch.zeros(slots, dtype=torch.int64, device=device)
        self._pool_NKX = torch.zeros(slots, beams, _POOL_COLUMNS, device=device)
        self._covered_NKS = torch.zeros(slots, beams, source_capacity, device=device)

    def clear(self, slots_N: Tensor) -> None:
        """Clear these slots for new sentences."""
        self._totals_NK.index_fill_(0, slots_N, -math.inf)
        self._totals_NK[:, 0].index_fill_(0, slots_N, 0.0)  # all beams start equal: only one may be continued
        self._num_finished_N.index_fill_(0, slots_N, 0)
        self._pool_NKX.index_fill_(0, slots_N, -math.inf)
        self._covered_NKS.index_fill_(0, slots_N, 0.0)

    def advance(self, step: StepOutput) -> Choice:
        """Choose which hypotheses are continued, and with which tokens."""
        self._add_attention(step)
        totals_NC, parents_NC, tokens_NC = self._candidates(step)
        is_eos_NC = tokens_NC == self._eos_id
        divisor_N1 = length_divisor(step.positions_N + 1, step.options)[:, None]
        self._pool_finished(step, totals_NC, parents_NC, is_eos_NC, divisor_N1)
        totals_NK, picked_NK = self._best_unfinished(step, totals_NC, is_eos_NC)
        tokens_NK, parents_NK = tokens_NC.gather(1, picked_NK), parents_NC.gather(1, picked_NK)
        self._continue(step, totals_NK, tokens_NK, parents_NK)
        settled_N = self._is_settled(step, totals_NK, divisor_N1, is_eos_NC[:, 0])
        return Choice(tokens_NK, parents_NK, _log_probs(step, parents_NK, tokens_NK), settled_N)

    def tensors(self, slots: int) -> tuple[Tensor, Tensor, Tensor]:
        """What the first slots hold: totals, how many hypotheses have finished, and the pool of these."""
        return self._totals_NK[:slots], self._num_finished_N[:slots], self._pool_NKX[:slots]

    def _candidates(self, step: StepOutput) -> tuple[Tensor, Tensor, Tensor]:
        """Totals, parents and tokens of the 2K best continuations, best first, (N, C) each."""
        # What has no total is not continued, and enters no pool.
        before_NK = self._totals_NK[: len(step.ranking_NKV)].masked_fill(~step.is_live_N[:, None], -math.inf)
        if step.features.phrases:
            options = step.options
            to_beat_N = _worst_returned(self._pool_NKX[: len(before_NK), :, _SCORE], options)
            to_beat_N = to_beat_N * length_divisor(options.longest_N, options)
            return self.phrases.candidates(step.ranking_NKV, before_NK, to_beat_N, step.positions_N, options)
        scores_NKC, tokens_NKC = step.ranking_NKV.topk(self.num_likeliest, 2)
        totals_NKC = scores_NKC + before_NK[..., None]
        totals_NC, index_NC = totals_NKC.flatten(1).topk(2 * self._beams, 1)
        parents_NC = index_NC.div(self.num_likeliest, rounding_mode="floor")
        return totals_NC, parents_NC, tokens_NKC.flatten(1).gather(1, index_NC)

    def _add_attention(self, step: StepOutput) -> None:
        """Add this step's attention to what the hypotheses have paid to each source token."""
        if step.attention_NKS is not None:
            slots, _, source_length = step.attention_NKS.shape
            weights_NKS = step.attention_NKS * step.is_live_N[:, None, None]
            self._covered_NKS[:slots, :, :source_length].add_(weights_NKS)

    def _best_unfinished(
        self, step: StepOutput, totals_NC: Tensor, is_eos_NC: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Totals of the K best candidates that do not end in EOS, and their places, (N, K) each."""
        if step.features.phrases:  # the candidates are in the order of their estimates
            picked_NK = is_eos_NC.int().argsort(dim=1, stable=True)[:, : self._beams]
            return totals_NC.gather(1, picked_NK), picked_NK
        totals_NK, picked_NK = totals_NC.masked_fill(is_eos_NC, -math.inf).topk(self._beams, 1)
        return totals_NK, picked_NK

    def _continue(self, step: StepOutput, totals_NK: Tensor, tokens_NK: Tensor, parents_NK: Tensor) -> None:
        """Replace the hypotheses by their continuations; those of slots that are not live stay."""
        slots, is_live_N1 = len(step.positions_N), step.is_live_N[:, None]
        before_NK, covered_NKS = self._totals_NK[:slots], self._covered_NKS[:slots]
        before_NK.copy_(torch.where(is_live_N1, totals_NK, before_NK))
        if step.features.phrases:
            self.phrases.advance(tokens_NK, parents_NK)
        if step.features.coverage:
            moved_NKS = take_rows(covered_NKS, parents_NK)
            covered_NKS.copy_(torch.where(is_live_N1[..., None], moved_NKS, covered_NKS))

    def _is_settled(
        self, step: StepOutput, totals_NK: Tensor, divisor_N1: Tensor, top_has_ended_N: Tensor
    ) -> Tensor:
        """See `is_settled`, for the hypotheses after this step."""
        slots, options = len(totals_NK), step.options
        scores_NK = totals_NK / divisor_N1
        if step.features.coverage:
            scores_NK = scores_NK + self._coverage_cost(step)
        best_N = totals_NK.amax(1) if step.features.phrases else totals_NK[:, 0]
        attainable_N = best_N / length_divisor(options.longest_N, options)
        pooled_NK, num_finished_N = self._pool_NKX[:slots, :, _SCORE], self._num_finished_N[:slots]
        return is_settled(
            pooled_NK, num_finished_N, scores_NK.amax(1), attainable_N, top_has_ended_N, options
        )

    def _pool_finished(
        self,
        step: StepOutput,
        totals_NC: Tensor,
        parents_NC: Tensor,
        is_eos_NC: Tensor,
        divisor_N1: Tensor,
    ) -> None:
        pool_NKX = self._pool_NKX[: len(totals_NC)]
        totals_NK, parents_NK = totals_NC[:, : self._beams], parents_NC[:, : self._beams]
        is_finished_NK = is_eos_NC[:, : self._beams] & (totals_NK > -math.inf)
        scores_NK = totals_NK / divisor_N1
        if step.features.coverage:
            scores_NK = scores_NK + self._coverage_cost(step).gather(1, parents_NK)
        scores_NK = scores_NK.masked_fill(~is_finished_NK, -math.inf)
        eos_NK = step.model_NKV[:, :, self._eos_id].gather(1, parents_NK)
        lengths_NK = step.positions_N[:, None].to(scores_NK.dtype).expand_as(scores_NK)
        new_NKX = torch.stack([scores_NK, lengths_NK, parents_NK.to(scores_NK.dtype), eos_NK], -1)
        both_NCX = torch.cat([pool_NKX, new_NKX], 1)
        best_NK = both_NCX[..., _SCORE].topk(self._beams, 1).indices
        best_NKX = both_NCX.gather(1, best_NK[..., None].expand(-1, -1, _POOL_COLUMNS))
        pool_NKX.copy_(torch.where(step.is_live_N[:, None, None], best_NKX, pool_NKX))
        self._num_finished_N[: len(totals_NC)].add_(is_finished_NK.sum(1))

    def _coverage_cost(self, step: StepOutput) -> Tensor:
        """The coverage cost of the hypotheses as they are now, (N, K)."""
        slots, source_length = step.is_source_NS.shape
        return coverage_cost(self._covered_NKS[:slots, :, :source_length], step.is_source_NS, step.options)

    def record(
        self, slots_N: Tensor, positions_N: Tensor, is_source_NS: Tensor, options: OptionRows
    ) -> Tensor:
        """The BeamRow of every beam of these slots, (N, K, 5)."""
        scores_NK = self._totals_NK[slots_N] / length_divisor(positions_N, options)[:, None]
        covered_NKS = self._covered_NKS[slots_N, :, : is_source_NS.shape[1]]
        costs_NK = coverage_cost(covered_NKS, is_source_NS, options)
        is_priced_N1 = (options.coverage_penalty_N > 0)[:, None]
        scores_NK = torch.where(is_priced_N1, scores_NK + costs_NK, scores_NK)
        return torch.cat([self._pool_NKX[slots_N], scores_NK[..., None]], -1)


def results(
    rows: Sequence[BeamRow], length: int, count: int, *, with_live: bool = False
) -> list[FinalHypothesis]:
    """The results of one slot; unfinished hypotheses only where none has finished, or `with_live`."""
    if with_live:
        both = _finished(rows) + _unfinished(rows, length)
        return sorted(both, key=lambda end: -end.score)[:count]
    return (_finished(rows) or _unfinished(rows, length))[:count]


def contenders(rows: Sequence[BeamRow], length: int) -> list[FinalHypothesis]:
    """The live hypotheses of one slot and the best finished one; the best result begins as one of them."""
    return _unfinished(rows, length) + _finished(rows)[:1]


def _worst_returned(finished_NK: Tensor, options: OptionRows) -> Tensor:
    """The score of the worst finished hypothesis that would be returned; −inf if more are needed, (N,)."""
    wanted_N1 = options.num_hypotheses_N[:, None].clamp(1, finished_NK.shape[1])
    return finished_NK.gather(1, wanted_N1 - 1).squeeze(1)


def _log_probs(step: StepOutput, parents_NK: Tensor, tokens_NK: Tensor) -> Tensor:
    index_NK = parents_NK * step.model_NKV.shape[2] + tokens_NK
    return step.model_NKV.flatten(1).gather(1, index_NK)


def _finished(rows: Sequence[BeamRow]) -> list[FinalHypothesis]:
    return [
        FinalHypothesis(row.score, int(row.length), int(row.row), row.eos_log_prob)
        for row in rows
        if row.score > -math.inf
    ]


def _unfinished(rows: Sequence[BeamRow], length: int) -> list[FinalHypothesis]:
    live = [(number, row.live_score) for number, row in enumerate(rows)]
    found = [FinalHypothesis(score, length, number, None) for number, score in live if score > -math.inf]
    return sorted(found, key=lambda end: -end.score)
