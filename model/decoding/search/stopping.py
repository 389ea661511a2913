"""⑤ When a beam search has what it wants.

Shapes: N slots, K lanes (beams).
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from model.decoding.sentence import Sentence


class StopRules:
    """Each slot's stop rule.

    A slot is settled
    - by any rule, when no live hypothesis can still enter the n best (`all` has only this one);
    - by `patience`, when patience × K hypotheses, and at least n, have finished;
    - by `first`, when the best continuation of a step ends in EOS.

    The first cut loses nothing: log-probabilities only fall, the divisor only grows with the length
    and the coverage penalty is at most 0, so that a live hypothesis will score at most its
    log-probability so far over the divisor at the longest length.

    Attributes:
        num_hypotheses_N: Hypotheses to return, n.
        longest_N: Most target tokens, EOS included.
    """

    def __init__(self, sentences: Sequence[Sentence], device: torch.device) -> None:
        options = [s.options for s in sentences]
        enough = [
            max(o.patience * o.beam_size, float(o.num_hypotheses)) if o.stop == "patience" else math.inf
            for o in options
        ]
        self.num_hypotheses_N = torch.tensor([o.num_hypotheses for o in options], device=device)
        self.longest_N = torch.tensor([s.longest for s in sentences], device=device)
        self._enough_N = torch.tensor(enough, device=device)
        self._at_first_N = torch.tensor([o.stop == "first" for o in options], device=device)

    def settled(
        self, finished_NK: Tensor, num_finished_N: Tensor, attainable_N: Tensor, top_has_ended_N: Tensor
    ) -> Tensor:
        """Whether each slot is, (N,).

        Args:
            finished_NK: Scores of the best finished hypotheses, best first, −inf where there is none.
            num_finished_N: Hypotheses that have finished so far.
            attainable_N: The best score that a live hypothesis can still reach; −inf if none lives.
            top_has_ended_N: Whether the best continuation of this step ends in EOS.
        """
        worst_N = finished_NK.gather(1, self.num_hypotheses_N[:, None] - 1).squeeze(1)
        is_enough_N = num_finished_N >= self._enough_N
        return (worst_N >= attainable_N) | is_enough_N | (top_has_ended_N & self._at_first_N)

    def keep(self, slots: Tensor) -> None:
        """Drop all slots but these."""
        self.num_hypotheses_N = self.num_hypotheses_N.index_select(0, slots)
        self.longest_N = self.longest_N.index_select(0, slots)
        self._enough_N = self._enough_N.index_select(0, slots)
        self._at_first_N = self._at_first_N.index_select(0, slots)
