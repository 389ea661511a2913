"""ⓔ What training minimises. No torch."""

from dataclasses import dataclass

from model.checks import require_number


@dataclass(frozen=True, kw_only=True)
class ObjectiveConfig:
    """What training minimises.

    Attributes:
        label_smoothing: ε: probability taken from the reference token and spread over the others
            (Szegedy et al. 2015, https://arxiv.org/abs/1512.00567); 0 is plain cross entropy.
        r_drop: α: how much two passes under different dropout are to agree (Liang et al. 2021,
            https://arxiv.org/abs/2106.14448, where 5 is best for translation); 0 makes one pass. With
            it a batch takes twice the time and memory.
    """

    label_smoothing: float = 0.1
    r_drop: float = 0.0

    def __post_init__(self) -> None:
        require_number("label_smoothing", self.label_smoothing, 0, 0.99)
        require_number("r_drop", self.r_drop, 0, 1000)
