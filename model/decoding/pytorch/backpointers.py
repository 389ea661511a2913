"""⑤ Which hypothesis produced which token, step by step, and the way back from its end.

Kept only while some sentence's options look at them.

Shapes: N slots, K lanes, C positions.

Beams are not moved when they change lanes: each step records every lane's parent, and a finished
hypothesis is read backwards, once.

Shapes: N slots, K lanes, C positions, T steps, S source.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

import torch
from torch import Tensor

from model.decoding.pytorch.search.protocol import Choice, Ending
from model.decoding.pytorch.search.scoring import take_lanes
from model.network.slot_tensors import Columns
from model.request import Hypothesis


class History(Columns):
    """Moves with the beams, unlike the trace.

    Args:
        slots: Rows to begin with.
        lanes: K.
        capacity: Most target positions.
        pad_id: Stands where nothing was produced yet; is never produced itself.
        device: Where the tensors live.
    """

    def __init__(self, slots: int, lanes: int, capacity: int, pad_id: int, device: torch.device) -> None:
        shape = (slots, lanes, capacity)
        self._pad_id = pad_id
        self._tokens_NKC = torch.zeros(shape, dtype=torch.int64, device=device)
        self._agreement_NKC = torch.zeros(shape, dtype=torch.int64, device=device)

    def seat(self, slots_N: Tensor) -> None:
        """Let new sentences begin in these slots."""
        self._tokens_NKC.index_fill_(0, slots_N, self._pad_id)
        self._agreement_NKC.index_fill_(0, slots_N, 0)

    def tokens(self, slots: int) -> Tensor:
        """Of the first slots, (N, K, C)."""
        return self._tokens_NKC[:slots]

    def agreement(self, slots: int) -> Tensor:
        """How many tokens before place c are the same as the last ones of all, (N, K, C)."""
        return self._agreement_NKC[:slots]

    def record(self, positions_N: Tensor, tokens_NK: Tensor, parents_NK: Tensor | None) -> None:
        """Add one token to every lane.

        Two ends of the past agree in one token more than before the step if their last tokens are
        the same, and in none otherwise.
        """
        tokens_NKC, agreement_NKC = self.tokens(len(positions_N)), self.agreement(len(positions_N))
        if parents_NK is not None:
            tokens_NKC.copy_(take_lanes(tokens_NKC, parents_NK))
            agreement_NKC.copy_(take_lanes(agreement_NKC, parents_NK))
        is_same_NKC = tokens_NKC[..., :-1] == tokens_NK[..., None]
        agreement_NKC[..., 1:] = (agreement_NKC[..., :-1] + 1).masked_fill(~is_same_NKC, 0)
        at_NK1 = positions_N[:, None, None].expand(*tokens_NK.shape, 1)
        tokens_NKC.scatter_(2, at_NK1, tokens_NK[..., None])


class Trace(Columns):
    """The record of a grid, on its device."""

    def __init__(self, slots: int, lanes: int, capacity: int, device: torch.device) -> None:
        shape = (slots, lanes, capacity)
        self._tokens_NKC = torch.zeros(shape, dtype=torch.int64, device=device)
        self._parents_NKC = torch.zeros(shape, dtype=torch.int64, device=device)
        self._log_probs_NKC = torch.zeros(shape, device=device)
        self._own_K = torch.arange(lanes, device=device)

    def record(self, positions_N: Tensor, choice: Choice) -> None:
        """Add one step."""
        slots, lanes = choice.tokens_NK.shape
        parents_NK = self._own_K.expand(slots, -1) if choice.parents_NK is None else choice.parents_NK
        at_NK1 = positions_N[:, None, None].expand(-1, lanes, 1)
        self._tokens_NKC[:slots].scatter_(2, at_NK1, choice.tokens_NK[..., None])
        self._parents_NKC[:slots].scatter_(2, at_NK1, parents_NK[..., None])
        self._log_probs_NKC[:slots].scatter_(2, at_NK1, choice.log_probs_NK[..., None])

    def record_of(self, slots_N: Tensor, length: int) -> Tensor:
        """Tokens, parents and log-probabilities of the first `length` steps, one after another, (N, K, 3T).

        As float64, which holds all three exactly: one table for one transfer.
        """
        tables = (self._tokens_NKC, self._parents_NKC, self._log_probs_NKC)
        return torch.cat([table[slots_N, :, :length].double() for table in tables], -1)


@dataclass(frozen=True)
class SlotTrace:
    """One slot's record: lists a lane of numbers a step.

    Attributes:
        tokens: Token each lane produced.
        parents: Lane it came from.
        log_probs: The network's log-probability of the token.
        attention: Weights (K, S) of each step over the source, lanes as they were before the step;
            empty if not asked for.
    """

    tokens: Sequence[Sequence[int]]
    parents: Sequence[Sequence[int]]
    log_probs: Sequence[Sequence[float]]
    attention: Sequence[Tensor] = ()

    @classmethod
    def read(cls, lanes: Sequence[Sequence[float]], attention: Sequence[Tensor] = ()) -> "SlotTrace":
        """What `Trace.record_of` told of a slot."""
        steps = len(lanes[0]) // 3
        return cls(
            tokens=[[int(number) for number in row[:steps]] for row in lanes],
            parents=[[int(number) for number in row[steps : 2 * steps]] for row in lanes],
            log_probs=[row[2 * steps :] for row in lanes],
            attention=attention,
        )

    def hypothesis(self, ending: Ending) -> Hypothesis:
        """The hypothesis that ends there, with its alignment if attention was kept."""
        lanes = self._lanes(ending)
        log_probs = [self.log_probs[lane][t] for t, lane in enumerate(lanes)]
        if ending.eos_log_prob is not None:
            log_probs.append(ending.eos_log_prob)
        return Hypothesis(
            token_ids=self.tokens_of(ending),
            score=ending.score,
            log_probability=sum(log_probs),
            token_log_probabilities=tuple(log_probs),
            finished=ending.eos_log_prob is not None,
            alignment=self._alignment(lanes) if self.attention else None,
        )

    def tokens_of(self, ending: Ending) -> tuple[int, ...]:
        """Those of the hypothesis that ends there."""
        return tuple(self.tokens[lane][t] for t, lane in enumerate(self._lanes(ending)))

    def _lanes(self, ending: Ending) -> list[int]:
        lanes = [ending.lane] * ending.length
        for t in range(ending.length - 1, 0, -1):
            lanes[t - 1] = self.parents[lanes[t]][t]
        return lanes

    def _alignment(self, lanes: Sequence[int]) -> tuple[tuple[float, ...], ...]:
        weights = (self.attention[t][self.parents[lane][t]] for t, lane in enumerate(lanes))
        return tuple(tuple(row.tolist()) for row in weights)


def common_beginning(rows: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """What all of them begin with; nothing of none."""
    shared = takewhile(lambda tokens: len(set(tokens)) == 1, zip(*rows, strict=False))
    return tuple(tokens[0] for tokens in shared)
