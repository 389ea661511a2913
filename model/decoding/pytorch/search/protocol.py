"""⑤ What a search gets from a step and what it makes of it.

Shapes: N slots, K lanes, S source, V vocabulary.
"""

from dataclasses import dataclass

from torch import Tensor

from model.decoding.pytorch.slot_options import Demands, OptionRows


@dataclass(frozen=True)
class Step:
    """What one decoder step offers to choose from.

    Attributes:
        positions_N: Tokens that each slot has produced before this step.
        ranking_NKV: Log-probabilities under the constraints: what to choose by; −inf is forbidden.
        model_NKV: Log-probabilities as the network gives them, except where forbidden: what to report.
            The same tensor where no constraint changes values.
        attention_NKS: Cross-attention of this step; None if nobody asks for it.
        is_source_NS: True where a source token is real.
        options: Of these slots.
        demands: Of all sentences of the grid.
    """

    positions_N: Tensor
    ranking_NKV: Tensor
    model_NKV: Tensor
    attention_NKS: Tensor | None
    is_source_NS: Tensor
    options: OptionRows
    demands: Demands

    def log_probs(self, tokens_NK: Tensor) -> Tensor:
        """The network's log-probability of one token a lane, (N, K)."""
        return _at(self.model_NKV, tokens_NK)

    def score(self, tokens_NK: Tensor) -> Tensor:
        """The log-probability to rank by of one token a lane, (N, K)."""
        return _at(self.ranking_NKV, tokens_NK)


@dataclass(frozen=True)
class Choice:
    """What a search made of one step.

    Attributes:
        tokens_NK: The token each lane goes on with.
        parents_NK: The lane whose hypothesis it continues; None if each continues its own.
        log_probs_NK: The network's log-probability of that token.
        settled_N: True where the slot's search has what it wants.
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


def _at(values_NKV: Tensor, tokens_NK: Tensor) -> Tensor:
    return values_NKV.gather(2, tokens_NK[..., None]).squeeze(2)
