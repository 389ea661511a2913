"""⑤ What a search gets from a step and what it makes of it.

Shapes: N slots, K hypotheses, S source, V vocabulary.
"""

from dataclasses import dataclass

from torch import Tensor

from model.decoding.pytorch.slot_options import ActiveFeatures, OptionRows


@dataclass(frozen=True)
class StepOutput:
    """What one decoder step computed: the scores to choose from.

    Attributes:
        positions_N: Tokens that each slot has produced before this step.
        ranking_NKV: Log-probabilities under the constraints: what to choose by; −inf is forbidden.
        model_NKV: Log-probabilities as the network gives them, except where forbidden: what to report.
            The same tensor where no constraint changes values.
        attention_NKS: Cross-attention of this step; None if no feature uses it.
        is_source_NS: True where a source token is real.
        is_live_N: False where the search was complete before this step: nothing may change there.
        options: Options of these slots.
        features: Features that any sentence of the batch uses.
    """

    positions_N: Tensor
    ranking_NKV: Tensor
    model_NKV: Tensor
    attention_NKS: Tensor | None
    is_source_NS: Tensor
    is_live_N: Tensor
    options: OptionRows
    features: ActiveFeatures

    def log_probs(self, tokens_NK: Tensor) -> Tensor:
        """The network's log-probability of one token per hypothesis, (N, K)."""
        return _at(self.model_NKV, tokens_NK)

    def score(self, tokens_NK: Tensor) -> Tensor:
        """The log-probability to rank by of one token per hypothesis, (N, K)."""
        return _at(self.ranking_NKV, tokens_NK)


@dataclass(frozen=True)
class Choice:
    """What a search made of one step.

    Attributes:
        tokens_NK: The token that each hypothesis goes on with.
        parents_NK: The row whose hypothesis it continues; None if each row continues its own.
        log_probs_NK: The network's log-probability of that token.
        settled_N: True where the search of the slot is complete.
    """

    tokens_NK: Tensor
    parents_NK: Tensor | None
    log_probs_NK: Tensor
    settled_N: Tensor


@dataclass(frozen=True)
class FinalHypothesis:
    """Where a hypothesis ends in the backpointers of its slot.

    Attributes:
        score: What the search ranks by.
        length: Tokens before EOS.
        row: The row that produced the last of them.
        eos_log_prob: The network's log-probability of EOS; None if the length limit ended it.
    """

    score: float
    length: int
    row: int
    eos_log_prob: float | None


def _at(values_NKV: Tensor, tokens_NK: Tensor) -> Tensor:
    return values_NKV.gather(2, tokens_NK[..., None]).squeeze(2)
