"""ⓔ Configuration of the objective and the optimiser. No torch."""

from dataclasses import dataclass

from model.validators import require_integer, require_number


@dataclass(frozen=True, kw_only=True)
class ObjectiveConfig:
    """What training minimises.

    Attributes:
        label_smoothing: ε, the probability that is moved from the reference token to the others (Szegedy et
            al. 2015, https://arxiv.org/abs/1512.00567); 0 is plain cross entropy.
        r_drop: α, the weight of the divergence between two passes with different dropout (Liang et al. 2021,
            https://arxiv.org/abs/2106.14448, where 5 is best for translation). 0 makes one pass; other
            values double time and memory.
    """

    label_smoothing: float = 0.1
    r_drop: float = 0.0

    def __post_init__(self) -> None:
        require_number("label_smoothing", self.label_smoothing, 0, 0.99)
        require_number("r_drop", self.r_drop, 0, 1000)


@dataclass(frozen=True, kw_only=True)
class OptimisationConfig:
    """How the weights are updated.

    Attributes:
        learning_rate: Peak of the schedule (its factor for the `noam` schedule, 1 in the paper).
        beta1: Decay of AdamW's running mean of gradients.
        beta2: Decay of its running mean of squared gradients.
        epsilon: Added to AdamW's denominator.
        weight_decay: Decoupled decay of matrices (https://arxiv.org/abs/1711.05101); biases, norms
            and embeddings have none.
        clip_norm: Largest L2 norm of the gradient over all weights; 0 disables clipping.
        accumulate: Batches per update, shared by all processes; the gradient is that of one batch of all
            their pairs.
        ema_decay: Decay of an exponential moving average of the weights, which validation and checkpoints
            use; 0 disables it.
        average_last: Validate and save the mean of the weights at the last n validations; 0 disables it.
    """

    learning_rate: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.98
    epsilon: float = 1e-9
    weight_decay: float = 0.01
    clip_norm: float = 1.0
    accumulate: int = 1
    ema_decay: float = 0.0
    average_last: int = 0

    def __post_init__(self) -> None:
        require_number("learning_rate", self.learning_rate, 0, open_minimum=True)
        require_number("beta1", self.beta1, 0, 0.99999)
        require_number("beta2", self.beta2, 0, 0.99999)
        require_number("epsilon", self.epsilon, 0, open_minimum=True)
        require_number("weight_decay", self.weight_decay, 0)
        require_number("clip_norm", self.clip_norm, 0)
        require_integer("accumulate", self.accumulate, 1)
        require_number("ema_decay", self.ema_decay, 0, 0.99999)
        require_integer("average_last", self.average_last, 0)
