"""⑤ What may not be produced: each constraint works on all hypotheses of the batch at once.

A constraint sets the score of forbidden tokens to −inf and keeps the others; only the repetition penalty
rescales. Padding, BOS, the decoder's start token and the ids that the engine was given (language tags)
are never produced. The unknown token may be, unless `suppress_ids` names it.

Shapes: N slots, K hypotheses, V vocabulary, C positions.
"""

import math
from collections.abc import Collection, Sequence

import torch
from torch import Tensor

from model.config import TransformerConfig
from model.decoding.pytorch.backpointers import TokenHistory
from model.decoding.pytorch.device_use import to_device
from model.decoding.pytorch.slot_options import ActiveFeatures, OptionRows
from model.decoding.sentence import Sentence
from model.network.decoder_state import SlotTensors

# Prefix ids are stored plus one, so that a 0 means "no id given".
_FREE = 0


class Constraints(SlotTensors):
    """All constraints of a batch; those that no sentence uses cost nothing.

    Args:
        slots: Initial number of slots.
        capacity: Most target positions.
        config: Configuration of the network.
        device: Where the tensors are.
        never_produced: Ids that no translation may contain, in addition to padding and BOS.

    Attributes:
        is_never_V: Ids that no translation may contain.
    """

    SLOT_TENSORS = ("_suppressed_NV", "_is_no_candidate_NV", "_prefixes_NC")

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
        self.is_never_V = torch.zeros(config.target_vocab_size, dtype=torch.bool, device=device)
        self.is_never_V[self._never] = True
        self._suppressed_NV = torch.zeros(slots, config.target_vocab_size, dtype=torch.bool, device=device)
        self._is_no_candidate_NV = torch.zeros_like(self._suppressed_NV)
        self._prefixes_NC = torch.zeros(slots, capacity, dtype=torch.int64, device=device)

    def clear(self, slots_N: Tensor) -> None:
        """Remove the constraints of these slots."""
        self._suppressed_NV.index_fill_(0, slots_N, False)
        self._is_no_candidate_NV.index_fill_(0, slots_N, False)
        self._prefixes_NC.index_fill_(0, slots_N, _FREE)

    def assign(self, slots_N: Tensor, sentences: Sequence[Sentence]) -> None:
        """Set the constraints of new sentences in these slots, which have been cleared."""
        for slot_1, sentence in zip(slots_N.split(1), sentences, strict=True):
            known = [i for i in sentence.options.suppress_ids if i < self._suppressed_NV.shape[1]]
            if known:
                self._suppressed_NV[slot_1, to_device(known, slot_1.device)] = True
            if sentence.candidates is not None:
                candidates = to_device(sentence.candidates.tolist(), slot_1.device)
                self._is_no_candidate_NV[slot_1] = True
                self._is_no_candidate_NV[slot_1, candidates] = False
            if prefix := sentence.prefix_ids:
                self._prefixes_NC[slot_1, : len(prefix)] = to_device(prefix, slot_1.device) + 1

    def restrict(self, logits_NKV: Tensor, features: ActiveFeatures) -> Tensor:
        """Sets the logits of tokens outside the shortlist of a sentence to −inf, and returns all logits.

        Args:
            logits_NKV: Overwritten.
            features: Features that any sentence of the batch uses.
        """
        if features.shortlisted:
            logits_NKV.masked_fill_(self._is_no_candidate_NV[: len(logits_NKV), None], -math.inf)
        return logits_NKV

    def apply(
        self,
        model_NKV: Tensor,
        positions_N: Tensor,
        history: TokenHistory,
        options: OptionRows,
        features: ActiveFeatures,
    ) -> Tensor:
        """Log-probabilities to choose by.

        Args:
            model_NKV: The network's log-probabilities; overwritten unless a constraint rescales.
            positions_N: Tokens that each slot has produced.
            history: The tokens of every hypothesis.
            options: Options of these slots.
            features: Features that any sentence of the batch uses.
        """
        slots = len(positions_N)
        given = self._given(model_NKV, positions_N, options) if features.prefixes else None
        ranking_NKV = model_NKV
        if features.repetition:
            ranking_NKV = _penalise_repetition(model_NKV, history, options)
        ranking_NKV.index_fill_(2, self._never, -math.inf)
        if features.suppressed:
            ranking_NKV.masked_fill_(self._suppressed_NV[:slots, None], -math.inf)
        if features.min_lengths:
            is_early_N = options.shortest_N > positions_N + 1
            ranking_NKV[:, :, self._eos_id].masked_fill_(is_early_N[:, None], -math.inf)
        if features.ngrams:
            _forbid_ngrams(ranking_NKV, positions_N, history, options)
        if given is not None:
            _force(ranking_NKV, *given)
        return ranking_NKV

    def _given(self, model_NKV: Tensor, positions_N: Tensor, options: OptionRows) -> tuple[Tensor, Tensor]:
        """The next prefix token of each hypothesis (−1 if none), and its score before other constraints.

        The score of a start token is 0.
        """
        tokens_N1 = self._prefixes_NC[: len(positions_N)].gather(1, positions_N[:, None]) - 1
        tokens_NK1 = tokens_N1[:, None].expand(-1, model_NKV.shape[1], 1)
        scores_NK1 = model_NKV.gather(2, tokens_NK1.clamp_min(0))
        is_start_N = positions_N < options.num_start_N
        return tokens_NK1, scores_NK1.masked_fill_(is_start_N[:, None, None], 0)


def _penalise_repetition(model_NKV: Tensor, history: TokenHistory, options: OptionRows) -> Tensor:
    """Multiply the log-probability of every token that its hypothesis already holds.

    Keskar et al. 2019 (https://arxiv.org/abs/1909.05858) rescale logits by their sign; a
    log-probability is never positive, so one multiplication does the same and does not depend on the
    zero point of the logits.
    """
    tokens_NKC = history.tokens(len(model_NKV))
    penalised_NKC = model_NKV.gather(2, tokens_NKC) * options.repetition_penalty_N[:, None, None]
    return model_NKV.scatter(2, tokens_NKC, penalised_NKC)


def _forbid_ngrams(
    ranking_NKV: Tensor, positions_N: Tensor, history: TokenHistory, options: OptionRows
) -> None:
    """Forbid the second occurrence of an n-gram in one hypothesis; n is the slot's own, 0 is no limit."""
    slots, sizes_N11 = len(positions_N), options.ngram_size_N[:, None, None]
    agreement_NKC = history.agreement(slots)
    indices_C = torch.arange(agreement_NKC.shape[2], device=positions_N.device)
    is_past_N1C = indices_C < positions_N[:, None, None]
    is_repeat_NKC = is_past_N1C & (agreement_NKC >= sizes_N11 - 1) & (sizes_N11 > 0)
    costs_NKC = torch.zeros(is_repeat_NKC.shape, device=positions_N.device)
    ranking_NKV.scatter_add_(2, history.tokens(slots), costs_NKC.masked_fill_(is_repeat_NKC, -math.inf))


def _force(ranking_NKV: Tensor, tokens_NK1: Tensor, values_NK1: Tensor) -> None:
    """Forbid all tokens but the given one, where there is one; it keeps the network's score."""
    is_given_NK1 = tokens_NK1 >= 0
    index_NK1 = tokens_NK1.clamp_min(0)
    kept_NK1 = torch.where(is_given_NK1, values_NK1, ranking_NKV.gather(2, index_NK1))
    ranking_NKV.masked_fill_(is_given_NK1, -math.inf).scatter_(2, index_NK1, kept_NK1)
