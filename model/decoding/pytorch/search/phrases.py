"""⑤ Beam search for translations that contain required phrases (lexically constrained decoding).

Hypotheses lack different numbers of tokens of the phrases, and one that has a phrase may have placed it
badly. So continuations are compared by an estimate of their totals once nothing is missing, for which each
missing token costs COST_OF_TOKEN (as in A*esque decoding, Lu et al. 2022, https://arxiv.org/abs/2112.08726).
A step removes continuations

- that lack more tokens than there is room for before the longest length, unless all do;
- that by their estimate will not be better than any finished hypothesis that would be returned;
- all but the W best of those that lack equally many tokens (banks, Post and Vilar 2018,
  https://arxiv.org/abs/1804.06609), W a quarter of the beams and at least the number of hypotheses to return;
- of the 2K best that are left, those that are worse than W others by more than the estimates may be wrong
  (relative threshold pruning, Freitag and Al-Onaizan 2017, https://aclanthology.org/W17-3207). That is
  ERROR_OF_TOKEN for each token that a continuation lacks more than the other, and COST_OF_PLACE if it lacks
  fewer, because the other may find no place for what it lacks.

So few hypotheses are alive where the network places the phrases by itself. EOS is forbidden while a phrase is
missing, and so are tokens that would continue the last word of a phrase (`DecodeRequest.word_parts`).

Shapes: N slots, K hypotheses, L tokens of all spellings of a slot's phrases, P phrases, V vocabulary,
X continuations, C those of them that are returned.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from model.decode_request import MAX_PHRASE_TOKENS, MAX_PHRASES
from model.decoding.pytorch.device_use import to_device
from model.decoding.pytorch.search.step import take_rows
from model.decoding.pytorch.slot_options import OptionRows
from model.decoding.sentence import Sentence
from model.network.decoder_state import SlotTensors

COST_OF_TOKEN, ERROR_OF_TOKEN, COST_OF_PLACE = 3.0, 1.5, 12.0
"""In nats: what a missing token costs; by how much less it may cost; what a bad place for a phrase costs."""
_LAST = torch.iinfo(torch.int64).max


class PhraseBanks(SlotTensors):
    """The required phrases of each slot, and how much of them its hypotheses have.

    A token of a spelling is reached if a hypothesis ends with the spelling up to this token. Of equal
    phrases, the first is met by the first occurrence, the second by the second.
    """

    SLOT_TENSORS = (
        *("_is_part_NV", "_prefix_lengths_N", "_has_ended_NK"),
        *("_tokens_NL", "_phrases_NL", "_is_first_NL", "_is_last_NL", "_progress_NL"),
        *("_lengths_NP", "_ranks_NP", "_is_reached_NKL", "_counts_NKP"),
    )

    def __init__(self, slots: int, beams: int, vocab_size: int, eos_id: int, device: torch.device) -> None:
        self._eos_id, self._beams = eos_id, beams
        self._is_part_NV = torch.zeros(slots, vocab_size, dtype=torch.bool, device=device)
        self._prefix_lengths_N = torch.zeros(slots, dtype=torch.int64, device=device)
        # Whether the last token has completed a phrase.
        self._has_ended_NK = torch.zeros(slots, beams, dtype=torch.bool, device=device)
        length, phrases = MAX_PHRASE_TOKENS, MAX_PHRASES
        self._tokens_NL = torch.zeros(slots, length, dtype=torch.int64, device=device)
        self._phrases_NL = torch.zeros(slots, length, dtype=torch.int64, device=device)
        self._is_first_NL = torch.zeros(slots, length, dtype=torch.bool, device=device)
        self._is_last_NL = torch.zeros(slots, length, dtype=torch.bool, device=device)
        # By how many tokens less is missing once a token is reached, compared with no token.
        self._progress_NL = torch.zeros(slots, length, dtype=torch.int64, device=device)
        self._lengths_NP = torch.zeros(slots, phrases, dtype=torch.int64, device=device)  # shortest spelling
        self._is_reached_NKL = torch.zeros(slots, beams, length, dtype=torch.bool, device=device)
        self._ranks_NP = torch.zeros(slots, phrases, dtype=torch.int64, device=device)  # equal ones before
        self._counts_NKP = torch.zeros(slots, beams, phrases, dtype=torch.int64, device=device)  # occurrences

    def clear(self, slots_N: Tensor) -> None:
        """Remove the phrases of these slots."""
        for tensor in (self._is_first_NL, self._is_last_NL, self._has_ended_NK):
            tensor.index_fill_(0, slots_N, False)
        self._lengths_NP.index_fill_(0, slots_N, 0)
        self._is_reached_NKL.index_fill_(0, slots_N, False)
        self._counts_NKP.index_fill_(0, slots_N, 0)

    def assign(self, slots_N: Tensor, sentences: Sequence[Sentence]) -> None:
        """Set the phrases of new sentences in these slots, which have been cleared."""
        for slot_1, sentence in zip(slots_N.split(1), sentences, strict=True):
            if sentence.request.phrases:
                self._assign(slot_1, sentence)

    def _assign(self, slot_1: Tensor, sentence: Sentence) -> None:
        phrases, parts = sentence.request.phrases, sentence.request.word_parts
        parts = parts or bytes(self._is_part_NV.shape[1])
        self._is_part_NV[slot_1] = to_device(
            torch.frombuffer(bytearray(parts), dtype=torch.bool), slot_1.device
        )
        self._prefix_lengths_N[slot_1] = len(sentence.prefix_ids)
        lengths = [min(map(len, phrase)) for phrase in phrases]
        rows = [
            (token, number, i == 0, i == len(spelling) - 1, lengths[number] - len(spelling) + i + 1)
            for number, phrase in enumerate(phrases)
            for spelling in phrase
            for i, token in enumerate(spelling)
        ]
        for tensor, column in zip(
            (self._tokens_NL, self._phrases_NL, self._is_first_NL, self._is_last_NL, self._progress_NL),
            zip(*rows, strict=True),
            strict=True,
        ):
            tensor[slot_1, : len(rows)] = to_device(column, slot_1.device).to(tensor.dtype)
        self._lengths_NP[slot_1, : len(lengths)] = to_device(lengths, slot_1.device)
        ranks = [phrases[:number].count(phrase) for number, phrase in enumerate(phrases)]
        self._ranks_NP[slot_1, : len(ranks)] = to_device(ranks, slot_1.device)

    def candidates(
        self,
        ranking_NKV: Tensor,
        totals_NK: Tensor,
        to_beat_N: Tensor,
        positions_N: Tensor,
        options: OptionRows,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Totals, parents and tokens of the 2K best continuations that are left, (N, C) each.

        Continuations are the 2K likeliest of each hypothesis, and those by the next token of a phrase. In a
        slot without phrases, they are the 2K best.

        Args:
            ranking_NKV: Log-probabilities; those of what PhraseBanks forbids become −inf.
            totals_NK: Totals of the hypotheses.
            to_beat_N: The total that a hypothesis must exceed in order to be returned; −inf if there is none.
            positions_N: Tokens that each slot has produced.
            options: Options of the N slots.
        """
        wanted_NKL, wanted_scores_NKL = self._constrain(ranking_NKV, positions_N)
        totals_NX, parents_NX, tokens_NX = self._continuations(
            ranking_NKV, totals_NK, wanted_NKL, wanted_scores_NKL
        )
        is_reached_NXL, counts_NXP = self._after(tokens_NX, parents_NX)
        missing_NX = self._missing(is_reached_NXL, self._is_met(counts_NXP))
        has_phrases_N1 = (self._lengths_NP[: len(totals_NX)] > 0).any(1, keepdim=True)
        estimates_NX = totals_NX - COST_OF_TOKEN * missing_NX
        is_valid_NX = (totals_NX > -math.inf) & ((estimates_NX > to_beat_N[:, None]) | ~has_phrases_N1)
        # Near the longest length, only those go on that have room for what they lack.
        least_N = missing_NX.masked_fill(~is_valid_NX, _LAST).amin(1)
        room_N = torch.maximum(options.longest_N - positions_N - 2, least_N)
        is_valid_NX &= missing_NX <= room_N[:, None]
        most_N1 = options.num_hypotheses_N[:, None].clamp_min(self._beams // 4)
        most_N1 = most_N1.masked_fill(~has_phrases_N1, _LAST)
        left_NC, is_left_NC = prune(
            estimates_NX.masked_fill(~is_valid_NX, -math.inf), missing_NX, most_N1, 2 * self._beams
        )
        totals_NC = totals_NX.gather(1, left_NC).masked_fill(~is_left_NC, -math.inf)
        return totals_NC, parents_NX.gather(1, left_NC), tokens_NX.gather(1, left_NC)

    def _constrain(self, ranking_NKV: Tensor, positions_N: Tensor) -> tuple[Tensor, Tensor]:
        """Forbid EOS while a phrase is missing, and what would lengthen the last word of a phrase, in place.

        Returns:
            The tokens of all spellings, (N, K, L), and the log-probability of each that is the next one of a
            missing phrase; −inf for the others.
        """
        slots = len(ranking_NKV)
        is_met_NKP, is_reached_NKL = self._is_met(self._counts_NKP[:slots]), self._is_reached_NKL[:slots]
        is_incomplete_NK = self._missing(is_reached_NKL, is_met_NKP) > 0
        ranking_NKV[:, :, self._eos_id].masked_fill_(is_incomplete_NK, -math.inf)
        wanted_NKL = self._tokens_NL[:slots, None].expand_as(is_reached_NKL)
        is_wanted_NKL = self._may_follow(is_reached_NKL) & ~self._of_phrase(is_met_NKP)
        wanted_scores_NKL = ranking_NKV.gather(2, wanted_NKL).masked_fill(~is_wanted_NKL, -math.inf)
        is_bound_NK = self._has_ended_NK[:slots] & (positions_N >= self._prefix_lengths_N[:slots])[:, None]
        ranking_NKV.masked_fill_(is_bound_NK[..., None] & self._is_part_NV[:slots, None], -math.inf)
        ranking_NKV.scatter_reduce_(2, wanted_NKL, wanted_scores_NKL, "amax")
        return wanted_NKL, wanted_scores_NKL

    def _continuations(
        self, ranking_NKV: Tensor, totals_NK: Tensor, wanted_NKL: Tensor, wanted_scores_NKL: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Totals, parents and tokens of all continuations, best first, (N, X) each; −inf for copies."""
        size = min(2 * self._beams, ranking_NKV.shape[2])
        scores_NKX, tokens_NKX = ranking_NKV.topk(size, 2)
        scores_NKX = torch.cat([scores_NKX, wanted_scores_NKL], 2)
        totals_NX, order_NX = (
            (scores_NKX + totals_NK[..., None]).flatten(1).sort(dim=1, descending=True, stable=True)
        )
        tokens_NX = torch.cat([tokens_NKX, wanted_NKL], 2).flatten(1).gather(1, order_NX)
        parents_NX = order_NX.div(scores_NKX.shape[2], rounding_mode="floor")
        # A continuation may be among the likeliest ones and by the next token of several spellings.
        is_copy_NX = (tokens_NX.diff(dim=1) == 0) & (parents_NX.diff(dim=1) == 0)
        totals_NX[:, 1:].masked_fill_(is_copy_NX, -math.inf)
        return totals_NX, parents_NX, tokens_NX

    def advance(self, tokens_NK: Tensor, parents_NK: Tensor) -> None:
        """Continue each hypothesis `parents_NK` by a token."""
        slots = len(tokens_NK)
        is_reached_NKL, counts_NKP = self._after(tokens_NK, parents_NK)
        was_met_NKP = self._is_met(take_rows(self._counts_NKP[:slots], parents_NK))
        self._has_ended_NK[:slots] = (self._is_met(counts_NKP) & ~was_met_NKP).any(2)
        self._is_reached_NKL[:slots] = is_reached_NKL
        self._counts_NKP[:slots] = counts_NKP

    def _after(self, tokens_NX: Tensor, parents_NX: Tensor) -> tuple[Tensor, Tensor]:
        """Which tokens are reached (N, X, L) and how often phrases occur (N, X, P) after continuations."""
        slots = len(tokens_NX)
        may_follow_NXL = take_rows(self._may_follow(self._is_reached_NKL[:slots]), parents_NX)
        is_reached_NXL = may_follow_NXL & (tokens_NX[..., None] == self._tokens_NL[:slots, None])
        is_ended_NXL = is_reached_NXL & self._is_last_NL[:slots, None]
        phrases_NXL = self._phrases_NL[:slots, None].expand_as(is_ended_NXL)
        counts_NXP = take_rows(self._counts_NKP[:slots], parents_NX)
        # Several spellings of a phrase may end with the same token.
        num_ended_NXP = torch.zeros_like(counts_NXP).scatter_add(2, phrases_NXL, is_ended_NXL.long())
        return is_reached_NXL, counts_NXP + (num_ended_NXP > 0)

    def _is_met(self, counts_NXP: Tensor) -> Tensor:
        """Which phrases are met, (N, X, P)."""
        return counts_NXP > self._ranks_NP[: len(counts_NXP), None]

    def _may_follow(self, is_reached_NXL: Tensor) -> Tensor:
        """The tokens that would be reached next: first ones, and those after a reached one, (N, X, L)."""
        slots = len(is_reached_NXL)
        return self._is_first_NL[:slots, None] | (is_reached_NXL & ~self._is_last_NL[:slots, None]).roll(1, 2)

    def _of_phrase(self, values_NXP: Tensor) -> Tensor:
        """The value of the phrase of each token, (N, X, L)."""
        slots, width = values_NXP.shape[:2]
        return values_NXP.gather(2, self._phrases_NL[:slots, None].expand(-1, width, -1))

    def _missing(self, is_reached_NXL: Tensor, is_met_NXP: Tensor) -> Tensor:
        """The fewest tokens that complete the phrases one after the other, (N, X)."""
        slots = len(is_met_NXP)
        missing_NX = (self._lengths_NP[:slots, None] * ~is_met_NXP).sum(2)
        is_begun_NXL = is_reached_NXL & ~self._is_last_NL[:slots, None] & ~self._of_phrase(is_met_NXP)
        return missing_NX - (self._progress_NL[:slots, None] * is_begun_NXL).amax(2).clamp_min(0)


def prune(estimates_NX: Tensor, missing_NX: Tensor, most_N1: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Places of the best continuations, those that are left first, and which of them are left, (N, C) each.

    Args:
        estimates_NX: Estimated totals; −inf for what is no continuation.
        missing_NX: Tokens that each continuation lacks.
        most_N1: W: most continuations that lack equally many tokens, and most others that are better.
        size: C.
    """
    estimates_NX, order_NX = estimates_NX.sort(dim=1, descending=True, stable=True)
    missing_NX = missing_NX.gather(1, order_NX).masked_fill(estimates_NX == -math.inf, _LAST)
    is_best_NX = (estimates_NX > -math.inf) & (_ranks(missing_NX) < most_N1)
    best_NC = _true_first(is_best_NX)[:, :size]
    is_left_NC = is_best_NX.gather(1, best_NC)
    estimates_NC = estimates_NX.gather(1, best_NC).masked_fill(~is_left_NC, -math.inf)
    is_left_NC &= _is_worse(estimates_NC, missing_NX.gather(1, best_NC)).sum(2) < most_N1
    left_NC = _true_first(is_left_NC)
    return order_NX.gather(1, best_NC).gather(1, left_NC), is_left_NC.gather(1, left_NC)


def _true_first(mask_NX: Tensor) -> Tensor:
    return mask_NX.int().argsort(dim=1, descending=True, stable=True)


def _ranks(missing_NX: Tensor) -> Tensor:
    """The place of each continuation among those that lack equally many tokens, (N, X)."""
    banks_NX, order_NX = missing_NX.sort(dim=1, stable=True)
    places_X = torch.arange(banks_NX.shape[1], device=banks_NX.device)
    ranks_NX = places_X - torch.searchsorted(banks_NX, banks_NX)
    return torch.empty_like(ranks_NX).scatter_(1, order_NX, ranks_NX)


def _is_worse(estimates_NC: Tensor, missing_NC: Tensor) -> Tensor:
    """Returns whether a continuation is worse than another, however far off the estimates are, (N, C, C)."""
    more_NCC = missing_NC[:, None, :] - missing_NC[:, :, None]
    margin_NCC = torch.where(more_NCC > 0, COST_OF_PLACE, -ERROR_OF_TOKEN * more_NCC)
    return estimates_NC[..., None] + margin_NCC < estimates_NC[:, None]
