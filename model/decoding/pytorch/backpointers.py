"""⑤ Which hypothesis produced which token, step by step, and the way back from its end.

Hypotheses are not moved when the search reorders them: each step records every row's parent, and a
finished hypothesis is read backwards, once. Only where an option compares a new token with the earlier
ones are the tokens kept in the order of each hypothesis as well (`TokenHistory`).

Shapes: N slots, K hypotheses, C positions, T steps, S source positions.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

import torch
from torch import Tensor

from model.decode_request import Hypothesis
from model.decoding.pytorch.search.step import Choice, FinalHypothesis, take_rows
from model.network.decoder_state import SlotTensors


class TokenHistory(SlotTensors):
    """The tokens of every hypothesis in order, for n-gram and repetition limits; reordered by the search.

    Args:
        slots: Initial number of slots.
        width: K.
        capacity: Most target positions.
        pad_id: Fills positions without a token; is never produced itself.
        device: Where the tensors live.
    """

    SLOT_TENSORS = ("_tokens_NKC", "_agreement_NKC")

    def __init__(self, slots: int, width: int, capacity: int, pad_id: int, device: torch.device) -> None:
        shape = (slots, width, capacity)
        self._pad_id = pad_id
        self._tokens_NKC = torch.zeros(shape, dtype=torch.int64, device=device)
        self._agreement_NKC = torch.zeros(shape, dtype=torch.int64, device=device)

    def clear(self, slots_N: Tensor) -> None:
        """Clear these slots for new sentences."""
        self._tokens_NKC.index_fill_(0, slots_N, self._pad_id)
        self._agreement_NKC.index_fill_(0, slots_N, 0)

    def tokens(self, slots: int) -> Tensor:
        """Tokens of the first slots, (N, K, C)."""
        return self._tokens_NKC[:slots]

    def agreement(self, slots: int) -> Tensor:
        """How many tokens before position c equal the last tokens of the hypothesis, (N, K, C)."""
        return self._agreement_NKC[:slots]

    def record(self, positions_N: Tensor, tokens_NK: Tensor, parents_NK: Tensor | None) -> None:
        """Append one token to every hypothesis.

        A position agrees with the end in one token more than before the step if its last token is the
        new one, and in none otherwise.
        """
        tokens_NKC, agreement_NKC = self.tokens(len(positions_N)), self.agreement(len(positions_N))
        if parents_NK is not None:
            tokens_NKC.copy_(take_rows(tokens_NKC, parents_NK))
            agreement_NKC.copy_(take_rows(agreement_NKC, parents_NK))
        is_same_NKC = tokens_NKC[..., :-1] == tokens_NK[..., None]
        agreement_NKC[..., 1:] = (agreement_NKC[..., :-1] + 1).masked_fill(~is_same_NKC, 0)
        at_NK1 = positions_N[:, None, None].expand(*tokens_NK.shape, 1)
        tokens_NKC.scatter_(2, at_NK1, tokens_NK[..., None])


class Backpointers(SlotTensors):
    """Token, parent and log-probability of every row in every step, on the device."""

    SLOT_TENSORS = ("_tokens_NKC", "_parents_NKC", "_log_probs_NKC")

    def __init__(self, slots: int, width: int, capacity: int, device: torch.device) -> None:
        shape = (slots, width, capacity)
        self._tokens_NKC = torch.zeros(shape, dtype=torch.int64, device=device)
        self._parents_NKC = torch.zeros(shape, dtype=torch.int64, device=device)
        self._log_probs_NKC = torch.zeros(shape, device=device)
        self._own_K = torch.arange(width, device=device)

    def record(self, positions_N: Tensor, choice: Choice) -> None:
        """Add one step."""
        slots, width = choice.tokens_NK.shape
        parents_NK = self._own_K.expand(slots, -1) if choice.parents_NK is None else choice.parents_NK
        at_NK1 = positions_N[:, None, None].expand(-1, width, 1)
        self._tokens_NKC[:slots].scatter_(2, at_NK1, choice.tokens_NK[..., None])
        self._parents_NKC[:slots].scatter_(2, at_NK1, parents_NK[..., None])
        self._log_probs_NKC[:slots].scatter_(2, at_NK1, choice.log_probs_NK[..., None])

    def tensors(self, slots: int) -> tuple[Tensor, Tensor, Tensor]:
        """Token, parent and log-probability of each row of the first slots in each step, (N, K, C) each."""
        return self._tokens_NKC[:slots], self._parents_NKC[:slots], self._log_probs_NKC[:slots]

    def packed(self, slots_N: Tensor, length: int) -> Tensor:
        """Tokens, then parents, then log-probabilities of the first `length` steps, (N, K, 3, T).

        float64 holds all three exactly, so that one transfer to the host is enough.
        """
        tables = (self._tokens_NKC, self._parents_NKC, self._log_probs_NKC)
        return torch.stack([table[slots_N, :, :length].double() for table in tables], 2)


@dataclass(frozen=True)
class SlotBackpointers:
    """The backpointers of one slot, on the host: for each row a list with one number per step.

    Attributes:
        tokens: Token that each row produced.
        parents: Row that it continued.
        log_probs: The network's log-probability of the token.
        attention: Weights (K, S) of each step over the source, rows as they were before the step;
            empty if not asked for.
    """

    tokens: list[list[int]]
    parents: list[list[int]]
    log_probs: list[list[float]]
    attention: Sequence[Tensor] = ()

    @classmethod
    def unpack(cls, packed_K3T: Tensor, attention: Sequence[Tensor] = ()) -> "SlotBackpointers":
        """Read what `Backpointers.packed` has for one slot."""
        tokens_KT, parents_KT, log_probs_KT = zip(*packed_K3T.tolist(), strict=True)
        tokens, parents = ([list(map(int, row)) for row in table] for table in (tokens_KT, parents_KT))
        return cls(tokens, parents, list(log_probs_KT), attention)

    def hypothesis(self, end: FinalHypothesis) -> Hypothesis:
        """The hypothesis that ends there, with its alignment if attention was kept."""
        rows = self._rows(end)
        log_probs = [self.log_probs[row][t] for t, row in enumerate(rows)]
        if end.eos_log_prob is not None:
            log_probs.append(end.eos_log_prob)
        return Hypothesis(
            token_ids=self.tokens_of(end),
            score=end.score,
            log_probability=sum(log_probs),
            token_log_probabilities=tuple(log_probs),
            finished=end.eos_log_prob is not None,
            alignment=self._alignment(rows) if self.attention else None,
        )

    def tokens_of(self, end: FinalHypothesis) -> tuple[int, ...]:
        """The tokens of the hypothesis that ends there."""
        return tuple(self.tokens[row][t] for t, row in enumerate(self._rows(end)))

    def _rows(self, end: FinalHypothesis) -> list[int]:
        rows = [end.row] * end.length
        for t in range(end.length - 1, 0, -1):
            rows[t - 1] = self.parents[rows[t]][t]
        return rows

    def _alignment(self, rows: Sequence[int]) -> tuple[tuple[float, ...], ...]:
        weights = (self.attention[t][self.parents[row][t]] for t, row in enumerate(rows))
        return tuple(tuple(weights_S.tolist()) for weights_S in weights)


def common_prefix(sequences: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """The longest prefix that all sequences share; empty if there is no sequence."""
    shared = takewhile(lambda tokens: len(set(tokens)) == 1, zip(*sequences, strict=False))
    return tuple(tokens[0] for tokens in shared)
