"""⑤ What may not be produced: each constraint works on all rows of the batch at once.

Constraints only take tokens away (their log-probability becomes −inf, the others keep theirs), but
for the repetition penalty, which rescales. Padding, BOS, the decoder's start token and what the
engine was told (language tags) are never produced; the unknown token is, unless `suppress_ids`
names it.

Shapes: N slots, K lanes, V vocabulary, T tokens produced so far, P listed pairs, X prefix positions.
"""

import math
from collections.abc import Collection, Sequence
from typing import Protocol

import torch
from torch import Tensor

from model.config import TransformerConfig
from model.decoding.sentence import Sentence


class Constraint(Protocol):
    """One rule over the whole batch."""

    def apply(self, scores_NKV: Tensor, history_NKT: Tensor) -> None:
        """Change the log-probabilities of the next token, in place.

        Args:
            scores_NKV: Log-probabilities.
            history_NKT: Tokens of each lane's hypothesis so far.
        """


class NeverProduced:
    """Ids that no translation may hold, the same for all."""

    def __init__(self, ids: Sequence[int], device: torch.device) -> None:
        self._ids = torch.tensor(sorted(ids), device=device)

    def apply(self, scores_NKV: Tensor, history_NKT: Tensor) -> None:
        """See Constraint."""
        scores_NKV.index_fill_(2, self._ids, -math.inf)


class SuppressedIds:
    """Ids that some sentence's options forbid."""

    def __init__(self, sentences: Sequence[Sentence], vocab_size: int, device: torch.device) -> None:
        pairs = [
            (slot, token)
            for slot, sentence in enumerate(sentences)
            for token in sentence.options.suppress_ids
            if token < vocab_size
        ]
        self._slots_P = torch.tensor([slot for slot, _ in pairs], dtype=torch.int64, device=device)
        self._ids_P = torch.tensor([token for _, token in pairs], dtype=torch.int64, device=device)

    def apply(self, scores_NKV: Tensor, history_NKT: Tensor) -> None:
        """See Constraint."""
        scores_NKV[self._slots_P, :, self._ids_P] = -math.inf


class MinLength:
    """No EOS before a hypothesis, EOS counted, has its least length."""

    def __init__(self, sentences: Sequence[Sentence], eos_id: int, device: torch.device) -> None:
        self._eos_id = eos_id
        self._shortest_N1 = torch.tensor([[s.shortest] for s in sentences], device=device)
        self._largest = max(s.shortest for s in sentences)

    def apply(self, scores_NKV: Tensor, history_NKT: Tensor) -> None:
        """See Constraint."""
        length = history_NKT.shape[2] + 1
        if length < self._largest:
            scores_NKV[:, :, self._eos_id].masked_fill_(self._shortest_N1 > length, -math.inf)


class NoRepeatNgram:
    """No n-gram twice in one hypothesis, n each slot's own; 0 is no limit."""

    def __init__(self, sentences: Sequence[Sentence], device: torch.device) -> None:
        sizes = [s.options.no_repeat_ngram_size for s in sentences]
        self._sizes = sorted(set(sizes) - {0})
        self._sizes_N11 = torch.tensor(sizes, device=device)[:, None, None]

    def apply(self, scores_NKV: Tensor, history_NKT: Tensor) -> None:
        """See Constraint."""
        for size in self._sizes:
            if history_NKT.shape[2] >= size:
                banned_NKW, ids_NKW = self._repeats(history_NKT, size)
                costs_NKW = torch.zeros_like(ids_NKW, dtype=scores_NKV.dtype)
                costs_NKW.masked_fill_(banned_NKW, -math.inf)
                scores_NKV.scatter_add_(2, ids_NKW, costs_NKW)

    def _repeats(self, history_NKT: Tensor, size: int) -> tuple[Tensor, Tensor]:
        """Whether each n-gram of the past begins as the hypothesis now ends, and its last token."""
        ngrams_NKWn = history_NKT.unfold(2, size, 1)
        ending_NK1n = history_NKT[:, :, None, history_NKT.shape[2] - size + 1 :]
        begins_alike_NKW = (ngrams_NKWn[..., :-1] == ending_NK1n).all(-1)
        return begins_alike_NKW & (self._sizes_N11 == size), ngrams_NKWn[..., -1]


class RepetitionPenalty:
    """Multiplies the log-probability of every token that its hypothesis already holds.

    Keskar et al. 2019 (https://arxiv.org/abs/1909.05858) rescale logits by their sign; a
    log-probability is never positive, so one multiplication says the same and does not depend on
    where the logits have their zero.
    """

    def __init__(self, sentences: Sequence[Sentence], device: torch.device) -> None:
        penalties = [s.options.repetition_penalty for s in sentences]
        self._penalty_N11 = torch.tensor(penalties, device=device)[:, None, None]

    def apply(self, scores_NKV: Tensor, history_NKT: Tensor) -> None:
        """See Constraint."""
        scores_NKV.scatter_(2, history_NKT, scores_NKV.gather(2, history_NKT) * self._penalty_N11)


class ForcedPrefix:
    """The first tokens of a translation, given; they keep the network's log-probability.

    It wraps the other constraints, because a given token may be one that they forbid.
    """

    def __init__(self, sentences: Sequence[Sentence], device: torch.device) -> None:
        prefixes = [s.request.prefix_ids for s in sentences]
        self._longest = max(map(len, prefixes))
        padded = [[*prefix, *[-1] * (self._longest - len(prefix))] for prefix in prefixes]
        self._prefix_NX = torch.tensor(padded, dtype=torch.int64, device=device)

    def given(self, scores_NKV: Tensor, position: int) -> tuple[Tensor, Tensor] | None:
        """Each lane's next token (−1 if free) and its score before constraints; None if all are free."""
        if position >= self._longest:
            return None
        tokens_NK1 = self._prefix_NX[:, position, None, None].expand(-1, scores_NKV.shape[1], 1)
        return tokens_NK1, scores_NKV.gather(2, tokens_NK1.clamp_min(0))

    def force(self, scores_NKV: Tensor, tokens_NK1: Tensor, values_NK1: Tensor) -> None:
        """Forbid all but the given tokens, where there are any."""
        is_given_NK1 = tokens_NK1 >= 0
        index_NK1 = tokens_NK1.clamp_min(0)
        values_NK1 = torch.where(is_given_NK1, values_NK1, scores_NKV.gather(2, index_NK1))
        scores_NKV.masked_fill_(is_given_NK1, -math.inf).scatter_(2, index_NK1, values_NK1)


class Constraints:
    """All constraints of one batch; those that nobody asks for cost nothing.

    Attributes:
        needs_history: Whether any of them looks at the tokens produced so far; otherwise only
            their number counts.
    """

    def __init__(
        self,
        sentences: Sequence[Sentence],
        config: TransformerConfig,
        device: torch.device,
        never_produced: Collection[int] = (),
    ) -> None:
        options = [s.options for s in sentences]
        self._rescale: list[Constraint] = []
        if any(o.repetition_penalty != 1 for o in options):
            self._rescale.append(RepetitionPenalty(sentences, device))
        reserved = {config.pad_id, config.bos_id, config.decoder_start_id}
        never = reserved.union(never_produced) - {config.eos_id}
        self._forbid: list[Constraint] = [NeverProduced(sorted(never), device)]
        if any(o.suppress_ids for o in options):
            self._forbid.append(SuppressedIds(sentences, config.target_vocab_size, device))
        if any(s.shortest > 1 for s in sentences):
            self._forbid.append(MinLength(sentences, config.eos_id, device))
        repeats = any(o.no_repeat_ngram_size for o in options)
        if repeats:
            self._forbid.append(NoRepeatNgram(sentences, device))
        self._prefix = ForcedPrefix(sentences, device)
        self.needs_history = repeats or bool(self._rescale)

    def apply(self, log_probs_NKV: Tensor, history_NKT: Tensor) -> Tensor:
        """Log-probabilities to choose by.

        Args:
            log_probs_NKV: The network's; overwritten unless a constraint rescales.
            history_NKT: Tokens so far; only its length is looked at unless `needs_history`.
        """
        ranking_NKV = log_probs_NKV.clone() if self._rescale else log_probs_NKV
        given = self._prefix.given(log_probs_NKV, history_NKT.shape[2])
        for constraint in (*self._rescale, *self._forbid):
            constraint.apply(ranking_NKV, history_NKT)
        if given is not None:
            self._prefix.force(ranking_NKV, *given)
        return ranking_NKV
