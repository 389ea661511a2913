"""⑤ What may not be produced: each constraint works on all rows of the grid at once.

Constraints only take tokens away (their score becomes −inf, the others keep theirs), but for the
repetition penalty, which rescales. Padding, BOS, the decoder's start token and what the engine was
told (language tags) are never produced; the unknown token is, unless `suppress_ids` names it.

Shapes: N slots, K lanes, V vocabulary, C positions.
"""

import math
from collections.abc import Collection, Sequence

import torch
from torch import Tensor

from model.config import TransformerConfig
from model.decoding.pytorch.backpointers import History
from model.decoding.pytorch.device_memory import to_device
from model.decoding.pytorch.slot_options import Demands, OptionRows
from model.decoding.sentence import Sentence
from model.network.slot_tensors import Columns

# Prefixes are kept one higher, so that the zeros of an empty row mean "free".
_FREE = 0


class Constraints(Columns):
    """All constraints of a grid; those that nobody asks for cost nothing.

    Args:
        slots: Rows to begin with.
        capacity: Most target positions.
        config: Of the network.
        device: Where it lives.
        never_produced: Ids that no translation may hold, beside padding and BOS.
    """

    def __init__(
        self,
        slots: int,
        capacity: int,
        config: TransformerConfig,
        device: torch.device,
        never_produced: Collection[int] = (),
    ) -> None:
        self._eos_id = config.eos_id
        self._never = torch.tensor(config.never_produced(never_produced), device=device)
        self._suppressed_NV = torch.zeros(slots, config.target_vocab_size, dtype=torch.bool, device=device)
        self._is_no_candidate_NV = torch.zeros_like(self._suppressed_NV)
        self._prefixes_NC = torch.zeros(slots, capacity, dtype=torch.int64, device=device)

    def seat(self, slots_N: Tensor, sentences: Sequence[Sentence]) -> None:
        """Let new sentences begin in these slots."""
        self._suppressed_NV.index_fill_(0, slots_N, False)
        self._is_no_candidate_NV.index_fill_(0, slots_N, False)
        self._prefixes_NC.index_fill_(0, slots_N, _FREE)
        for slot_1, sentence in zip(slots_N.split(1), sentences, strict=True):
            known = [i for i in sentence.options.suppress_ids if i < self._suppressed_NV.shape[1]]
            if known:
                self._suppressed_NV[slot_1, to_device(known, slot_1.device)] = True
            if sentence.candidates is not None:
                candidates = to_device(sentence.candidates.tolist(), slot_1.device)
                self._is_no_candidate_NV[slot_1] = True
                self._is_no_candidate_NV[slot_1, candidates] = False
            if prefix := sentence.request.prefix_ids:
                self._prefixes_NC[slot_1, : len(prefix)] = to_device(prefix, slot_1.device) + 1

    def restrict(self, logits_NKV: Tensor, demands: Demands) -> Tensor:
        """Logits, −inf for what is no candidate: a shortlist is the vocabulary of its sentence.

        Args:
            logits_NKV: Overwritten.
            demands: Of all sentences of the grid.
        """
        if demands.shortlisted:
            logits_NKV.masked_fill_(self._is_no_candidate_NV[: len(logits_NKV), None], -math.inf)
        return logits_NKV

    def apply(
        self,
        model_NKV: Tensor,
        positions_N: Tensor,
        history: History,
        options: OptionRows,
        demands: Demands,
    ) -> Tensor:
        """Log-probabilities to choose by.

        Args:
            model_NKV: The network's; overwritten unless a constraint rescales.
            positions_N: Tokens that each slot has produced.
            history: Which ones.
            options: Of these slots.
            demands: Of all sentences of the grid.
        """
        slots = len(positions_N)
        given = self._given(model_NKV, positions_N) if demands.prefixes else None
        ranking_NKV = model_NKV
        if demands.repetition:
            ranking_NKV = _penalise_repetition(model_NKV, history, options)
        ranking_NKV.index_fill_(2, self._never, -math.inf)
        if demands.suppressed:
            ranking_NKV.masked_fill_(self._suppressed_NV[:slots, None], -math.inf)
        if demands.lengths:
            is_early_N = options.shortest_N > positions_N + 1
            ranking_NKV[:, :, self._eos_id].masked_fill_(is_early_N[:, None], -math.inf)
        if demands.ngrams:
            _forbid_ngrams(ranking_NKV, positions_N, history, options)
        if given is not None:
            _force(ranking_NKV, *given)
        return ranking_NKV

    def _given(self, model_NKV: Tensor, positions_N: Tensor) -> tuple[Tensor, Tensor]:
        """Each lane's next token (−1 if free), and its score before other constraints."""
        tokens_N1 = self._prefixes_NC[: len(positions_N)].gather(1, positions_N[:, None]) - 1
        tokens_NK1 = tokens_N1[:, None].expand(-1, model_NKV.shape[1], 1)
        return tokens_NK1, model_NKV.gather(2, tokens_NK1.clamp_min(0))


def _penalise_repetition(model_NKV: Tensor, history: History, options: OptionRows) -> Tensor:
    """Multiply the log-probability of every token that its hypothesis already holds.

    Keskar et al. 2019 (https://arxiv.org/abs/1909.05858) rescale logits by their sign; a
    log-probability is never positive, so one multiplication says the same and does not depend on
    where the logits have their zero.
    """
    tokens_NKC = history.tokens(len(model_NKV))
    penalised_NKC = model_NKV.gather(2, tokens_NKC) * options.repetition_penalty_N[:, None, None]
    return model_NKV.scatter(2, tokens_NKC, penalised_NKC)


def _forbid_ngrams(ranking_NKV: Tensor, positions_N: Tensor, history: History, options: OptionRows) -> None:
    """No n-gram twice in one hypothesis, n each slot's own; 0 is no limit."""
    slots, sizes_N11 = len(positions_N), options.ngram_size_N[:, None, None]
    agreement_NKC = history.agreement(slots)
    places_C = torch.arange(agreement_NKC.shape[2], device=positions_N.device)
    is_past_N1C = places_C < positions_N[:, None, None]
    is_repeat_NKC = is_past_N1C & (agreement_NKC >= sizes_N11 - 1) & (sizes_N11 > 0)
    costs_NKC = torch.zeros(is_repeat_NKC.shape, device=positions_N.device)
    ranking_NKV.scatter_add_(2, history.tokens(slots), costs_NKC.masked_fill_(is_repeat_NKC, -math.inf))


def _force(ranking_NKV: Tensor, tokens_NK1: Tensor, values_NK1: Tensor) -> None:
    """Forbid all but the given tokens, where there are any; they keep the network's score."""
    is_given_NK1 = tokens_NK1 >= 0
    index_NK1 = tokens_NK1.clamp_min(0)
    kept_NK1 = torch.where(is_given_NK1, values_NK1, ranking_NKV.gather(2, index_NK1))
    ranking_NKV.masked_fill_(is_given_NK1, -math.inf).scatter_(2, index_NK1, kept_NK1)
