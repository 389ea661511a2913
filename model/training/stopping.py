"""ⓔ When to stop early: on the score of translations, never on the loss.

The loss on held-out text rises while the translations still get better (ChineseNMT: dev loss
3.93 → 4.10 while BLEU went 25.4 → 26.1), so only BLEU or chrF count here.
"""

from dataclasses import dataclass


@dataclass
class EarlyStopping:
    """Counts validations since the best score.

    Attributes:
        patience: Validations without a better score after which to stop; 0 never stops.
        best: Highest score so far; None before the first.
        validations_since_best: Consecutive validations that did not beat it.
    """

    patience: int
    best: float | None = None
    validations_since_best: int = 0

    def record(self, score: float) -> bool:
        """Take in a validation's score; True if it is the best so far."""
        if self.best is None or score > self.best:
            self.best, self.validations_since_best = score, 0
            return True
        self.validations_since_best += 1
        return False

    @property
    def exhausted(self) -> bool:
        """Whether the patience has run out."""
        return 0 < self.patience <= self.validations_since_best
