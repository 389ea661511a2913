"""ⓔ One update of the weights: forward, loss, backward, clip, step."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor

from model.errors import DivergenceError
from model.network.transformer import Transformer
from model.training.config_sections import Precision
from model.training.data.batches import Batch
from model.training.distributed.world import SINGLE_PROCESS, World
from model.training.optimisation.measurements import Update, operations_of_batch
from model.training.optimisation.objective import (
    Smoothing,
    SummedLoss,
    label_smoothed_loss,
    projected_loss,
    r_drop_loss,
)
from model.training.optimisation.optimiser import build_optimiser
from model.training.optimisation.schedule import Schedule
from model.training.train_config import TrainConfig

States = Callable[[Tensor, Tensor], Tensor]
"""Decoder states (N, T, M) of a source and a decoder input."""


def autocast(device: torch.device, precision: Precision) -> AbstractContextManager[object]:
    """Matrix products in `precision`, sums and norms in float32."""
    return torch.autocast(device.type, getattr(torch, precision), enabled=precision != "float32")


def holds_logits(device: torch.device) -> bool:
    """Returns whether a loss is computed from all logits of a batch; a CPU has a fused kernel for them."""
    return device.type == "cpu"


def sequence_loss(
    network: Transformer, batch: Batch, smoothing: Smoothing, states: States | None = None
) -> SummedLoss:
    """The loss of a batch under teacher forcing: position t predicts label t from labels before t.

    On a GPU the logits of the batch are never in memory at once.

    Args:
        network: The network.
        batch: On its device.
        smoothing: The target distribution.
        states: Computes `network.states`, compiled for example; None for itself.
    """
    states_NTM = (states or network.states)(batch.source_NS, batch.decoder_input_NT)
    if holds_logits(states_NTM.device):
        return label_smoothed_loss(network.project(states_NTM), batch.labels_NT, smoothing)
    scaled_NTM = states_NTM * network.config.logit_scale
    return projected_loss(scaled_NTM, network.output, batch.labels_NT, smoothing)


class Updater:
    """Updates the weights of a network.

    Args:
        network: Network on `device`.
        config: The run's configuration.
        device: Device of the network.
        world: The processes that share an update's batches.

    Raises:
        ConfigError: If a cosine ends within the warm-up.
    """

    def __init__(
        self,
        network: Transformer,
        config: TrainConfig,
        device: torch.device,
        world: World = SINGLE_PROCESS,
    ) -> None:
        shape = network.config
        self.network = network
        self.optimiser = build_optimiser(network, config.optimisation)
        self.schedule = Schedule(
            config.schedule, config.optimisation.learning_rate, shape.model_dim, config.run
        )
        self.schedule.warn()
        self._states: States = network.states
        if config.run.compile:
            self._states = torch.compile(network.states, dynamic=True)
        self._scaler = torch.amp.GradScaler(device.type, enabled=config.run.precision == "float16")
        self._passes = 2 if config.objective.r_drop else 1
        self._shape = shape
        self._config = config
        self._device = device
        self._world = world
        self._weights = [weight for weight in network.parameters() if weight.requires_grad]

    def update(
        self, step: int, batches: Sequence[Batch], *, minutes: float = 0.0, epoch: float = 0.0
    ) -> Update:
        """One update from several batches, equal to one from a single batch of all their pairs.

        Args:
            step: Counted from 1; sets the learning rate.
            batches: Those of all processes; the ones of this process are on the network's device.
            minutes: Minutes of training before this update, the same for all processes.
            epoch: Passes over the data before this update.
        """
        rate = self.schedule.rate(step, minutes=minutes, epoch=epoch)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        loss, cross_entropy = self._accumulate_gradient(batches)
        norm = self._clip()
        self._scaler.step(self.optimiser)
        self._scaler.update()
        num_tokens = sum(batch.num_source_tokens + batch.num_target_tokens for batch in batches)
        num_positions = sum(batch.source_NS.numel() + batch.labels_NT.numel() for batch in batches)
        operations = self._passes * sum(operations_of_batch(self._shape, batch) for batch in batches)
        return Update(loss, cross_entropy, norm, rate, num_tokens, num_positions, operations)

    def _accumulate_gradient(self, batches: Sequence[Batch]) -> tuple[Tensor, Tensor]:
        """Compute the gradient of the mean over all target tokens of all processes.

        Returns:
            Smoothed loss and cross entropy per target token.
        """
        self.network.train()
        self.optimiser.zero_grad(set_to_none=True)
        num_labels = sum(batch.num_target_tokens for batch in batches)
        totals = torch.zeros(2, device=self._device)
        self._scaler.scale(totals)  # its first call creates the scale; this process may have no batch
        for batch in batches:
            if batch.is_remote:
                continue
            with autocast(self._device, self._config.run.precision):
                loss = self._loss(batch)
            self._scaler.scale(loss.smoothed / num_labels).backward()
            totals += torch.stack([loss.smoothed.detach(), loss.cross_entropy]) / num_labels
        self._world.sum_gradients(self._weights)
        self._world.sum_(totals)
        return totals[0], totals[1]

    def _loss(self, batch: Batch) -> SummedLoss:
        objective = self._config.objective
        smoothing = Smoothing.of(self._shape, objective.label_smoothing)
        if not objective.r_drop:
            return sequence_loss(self.network, batch, smoothing, self._states)
        return r_drop_loss(self._logits, batch, smoothing, objective.r_drop)

    def _logits(self, source_NS: Tensor, target_NT: Tensor) -> Tensor:
        return self.network.project(self._states(source_NS, target_NT))

    def _clip(self) -> Tensor:
        longest = self._config.optimisation.clip_norm or float("inf")
        self._scaler.unscale_(self.optimiser)
        return torch.nn.utils.clip_grad_norm_(self.network.parameters(), longest)

    def require_finite_weights(self, step: int) -> None:
        """Check every weight; called before weights are saved.

        Raises:
            DivergenceError: Naming the first weight that is not finite.
        """
        for name, weight in self.network.named_parameters():
            if not bool(weight.detach().isfinite().all()):
                raise DivergenceError(f"training diverged at step {step}: the weight {name} is not finite")

    def state_tensors(self) -> dict[str, Tensor]:
        """Weights and optimiser state by name."""
        tensors = {}
        for name, weight in self.network.named_parameters():
            tensors[f"weights.{name}"] = weight.detach()
            for key, value in self.optimiser.state[weight].items():
                tensors[f"optimiser.{name}.{key}"] = value
        return tensors

    def state_values(self) -> dict[str, object]:
        """The rest of the state, for JSON."""
        return {"scaler": self._scaler.state_dict()}

    @torch.no_grad()
    def load_state(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        """Restore what `state_tensors` and `state_values` returned.

        Raises:
            KeyError: If the network has other weights, for example because its preset has changed.
        """
        found = {name.removeprefix("weights.") for name in tensors if name.startswith("weights.")}
        if others := found ^ {name for name, _ in self.network.named_parameters()}:
            raise KeyError(min(others))
        for name, weight in self.network.named_parameters():
            weight.copy_(tensors[f"weights.{name}"])
            prefix = f"optimiser.{name}."
            saved = {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
            if saved:
                self.optimiser.state[weight] = {k: v.to(weight.device) for k, v in saved.items()}
        if values["scaler"]:
            self._scaler.load_state_dict(values["scaler"])
