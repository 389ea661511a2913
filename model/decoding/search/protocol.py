"""⑤ What a search strategy is to the running batch.

Shapes: N slots, K lanes, S source, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor


@dataclass(frozen=True)
class Step:
    """What one decoder step offers to choose from.

    Attributes:
        position: Tokens produced before this step.
        ranking_NKV: Log-probabilities under the constraints: what to choose by; −inf is forbidden.
        model_NKV: Log-probabilities as the network gives them, except where forbidden: what to
            report. The same tensor where no constraint changes values.
        attention_NKS: Cross-attention of this step; None if nobody in the batch asks for it.
        mask_NS: True where a source token is real.
    """

    position: int
    ranking_NKV: Tensor
    model_NKV: Tensor
    attention_NKS: Tensor | None
    mask_NS: Tensor

    def of_slots(self, slots: Tensor) -> "Step":
        """The part of the step that belongs to these slots."""
        ranking_NKV = self.ranking_NKV.index_select(0, slots)
        is_same = self.model_NKV is self.ranking_NKV
        model_NKV = ranking_NKV if is_same else self.model_NKV.index_select(0, slots)
        attention_NKS = None if self.attention_NKS is None else self.attention_NKS.index_select(0, slots)
        return Step(self.position, ranking_NKV, model_NKV, attention_NKS, self.mask_NS.index_select(0, slots))


@dataclass(frozen=True)
class Choice:
    """What a search made of one step.

    Attributes:
        tokens_NK: The token each lane goes on with.
        parents_NK: The lane whose hypothesis it continues; None if each continues its own.
        log_probs_NK: The network's log-probability of that token.
        settled_N: True where nothing can change the slot's result any more.
    """

    tokens_NK: Tensor
    parents_NK: Tensor | None
    log_probs_NK: Tensor
    settled_N: Tensor


@dataclass(frozen=True)
class Ending:
    """Where a hypothesis ends in the trace of its slot.

    Attributes:
        score: What the search ranks by.
        length: Tokens before EOS.
        lane: Where the last of them was produced.
        eos_log_prob: The network's log-probability of EOS; None if the length limit ended it.
    """

    score: float
    length: int
    lane: int
    eos_log_prob: float | None


class Search(Protocol):
    """One strategy, over the slots of a batch that use it; options are each slot's own."""

    def advance(self, step: Step) -> Choice:
        """Choose every lane's next token. Nothing here waits for the device."""

    def endings(self, slots: Sequence[int]) -> list[list[Ending]]:
        """The results of these slots, best first, as many as asked for or found."""

    def contenders(self, slot: int) -> list[tuple[int, int]]:
        """Lane and length of each hypothesis that the slot's best result may continue or be."""

    def keep(self, slots: Sequence[int]) -> None:
        """Drop all slots but these; they are numbered anew in this order."""


def token_log_probs(step: Step, tokens_NK: Tensor) -> Tensor:
    """The network's log-probability of one token a lane, (N, K)."""
    return step.model_NKV.gather(2, tokens_NK[..., None]).squeeze(2)
