"""⑤ Who produced which token, step by step, and the way back from an ending to a hypothesis.

Beams are not moved when they change lanes: each step records every lane's parent, and a finished
hypothesis is read backwards, once.

Shapes: N slots, K lanes, S source, T steps, C capacity.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from model.decoding.search.protocol import Choice, Ending
from model.request import Hypothesis


class Trace:
    """The record of a running batch, on its device."""

    def __init__(self, slots: int, lanes: int, capacity: int, device: torch.device) -> None:
        shape = (capacity, slots, lanes)
        self._tokens_CNK = torch.zeros(shape, dtype=torch.int64, device=device)
        self._log_probs_CNK = torch.zeros(shape, device=device)
        self._parents_CNK = torch.arange(lanes, device=device).expand(shape).contiguous()
        self._attention: list[Tensor] = []

    def record(self, position: int, choice: Choice, attention_NKS: Tensor | None) -> None:
        """Add one step."""
        self._tokens_CNK[position] = choice.tokens_NK
        self._log_probs_CNK[position] = choice.log_probs_NK
        if choice.parents_NK is not None:
            self._parents_CNK[position] = choice.parents_NK
        if attention_NKS is not None:
            self._attention.append(attention_NKS)

    def keep(self, slots: Tensor) -> None:
        """Drop all slots but these."""
        self._tokens_CNK = self._tokens_CNK.index_select(1, slots)
        self._log_probs_CNK = self._log_probs_CNK.index_select(1, slots)
        self._parents_CNK = self._parents_CNK.index_select(1, slots)
        self._attention = [step.index_select(0, slots) for step in self._attention]

    def of_slots(self, slots: Sequence[int], length: int) -> list["SlotTrace"]:
        """Copies of these slots' first `length` steps, on the host."""
        chosen = list(slots)
        tokens = self._tokens_CNK[:length, chosen].transpose(0, 1).tolist()
        parents = self._parents_CNK[:length, chosen].transpose(0, 1).tolist()
        log_probs = self._log_probs_CNK[:length, chosen].transpose(0, 1).tolist()
        attention = [step[chosen].cpu() for step in self._attention]
        return [
            SlotTrace(tokens[n], parents[n], log_probs[n], [step[n] for step in attention])
            for n in range(len(chosen))
        ]


@dataclass(frozen=True)
class SlotTrace:
    """One slot's record: lists a step of lists a lane.

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
    attention: Sequence[Tensor]

    def hypothesis(self, ending: Ending, *, source_length: int, with_alignment: bool) -> Hypothesis:
        """The hypothesis that ends there."""
        lanes = self._lanes(ending.lane, ending.length)
        steps = range(ending.length)
        log_probs = [self.log_probs[t][lanes[t]] for t in steps]
        if ending.eos_log_prob is not None:
            log_probs.append(ending.eos_log_prob)
        return Hypothesis(
            token_ids=tuple(self.tokens[t][lanes[t]] for t in steps),
            score=ending.score,
            log_probability=sum(log_probs),
            token_log_probabilities=tuple(log_probs),
            finished=ending.eos_log_prob is not None,
            alignment=self._alignment(lanes, source_length) if with_alignment else None,
        )

    def tokens_of(self, lane: int, length: int) -> tuple[int, ...]:
        """The first `length` tokens of the hypothesis whose last one this lane produced."""
        return tuple(self.tokens[t][at] for t, at in enumerate(self._lanes(lane, length)))

    def _lanes(self, lane: int, length: int) -> list[int]:
        lanes = [lane] * length
        for t in range(length - 1, 0, -1):
            lanes[t - 1] = self.parents[t][lanes[t]]
        return lanes

    def _alignment(self, lanes: Sequence[int], source_length: int) -> tuple[tuple[float, ...], ...]:
        weights = (self.attention[t][self.parents[t][lane]] for t, lane in enumerate(lanes))
        return tuple(tuple(row[:source_length].tolist()) for row in weights)
