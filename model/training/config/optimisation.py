"""ⓔ Configuration of the objective, the optimiser and the learning rate. No torch."""

from typing import Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from model.training.config.fields import STRICT, Count, Number, Positive, Share
from model.validators import require

ScheduleForm = Literal["inverse_sqrt", "noam", "cosine", "constant"]
Decay = Annotated[Number, Field(ge=0, le=0.99999)]
AboveZero = Annotated[Number, Field(gt=0)]
FromZero = Annotated[Number, Field(ge=0)]


@dataclass(frozen=True, kw_only=True, config=STRICT)
class ObjectiveConfig:
    """What training minimises.

    Attributes:
        label_smoothing: ε, the probability that is moved from the reference token to the others (Szegedy et
            al. 2015, https://arxiv.org/abs/1512.00567); 0 is plain cross entropy.
        r_drop: α, the weight of the divergence between two passes with different dropout (Liang et al. 2021,
            https://arxiv.org/abs/2106.14448, where 5 is best for translation). 0 makes one pass; other
            values double time and memory.
    """

    label_smoothing: Annotated[Number, Field(ge=0, le=0.99)] = 0.1
    r_drop: Annotated[Number, Field(ge=0, le=1000)] = 0.0


@dataclass(frozen=True, kw_only=True, config=STRICT)
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

    learning_rate: AboveZero = 1e-3
    beta1: Decay = 0.9
    beta2: Decay = 0.98
    epsilon: AboveZero = 1e-9
    weight_decay: FromZero = 0.01
    clip_norm: FromZero = 1.0
    accumulate: Positive = 1
    ema_decay: Decay = 0.0
    average_last: Count = 0


@dataclass(frozen=True, kw_only=True, config=STRICT)
class ScheduleConfig:
    """How the learning rate changes from step to step (s, counted from 1; w: warm-up steps).

    Attributes:
        form: `inverse_sqrt`: peak × sqrt(w / s); `noam`: factor × model_dim^−½ × min(s^−½, s × w^−1.5)
            (Vaswani et al. 2017, eq. 3), where optimisation.learning_rate is the factor;
            `cosine`: from the peak down to minimum_ratio × peak at total_steps; `constant`: the peak.
        warmup_steps: Steps over which the rate rises linearly from 0.
        total_steps: End of the cosine; 0 takes run.max_steps, or without that limit the first of
            run.max_minutes and run.max_epochs.
        minimum_ratio: Floor of the cosine, as a share of the peak.
    """

    form: ScheduleForm = "inverse_sqrt"
    warmup_steps: Count = 1000
    total_steps: Count = 0
    minimum_ratio: Share = 0.1

    def __post_init__(self) -> None:
        warms_up = self.form != "noam" or self.warmup_steps > 0
        require(warms_up, "warmup_steps", "at least 1 for noam", self.warmup_steps)
