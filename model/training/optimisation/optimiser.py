"""AdamW, which weights decay, and averages of the weights over several steps."""

import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from model.training.config_sections import OptimisationConfig


def decay_groups(network: nn.Module) -> tuple[list[Tensor], list[Tensor]]:
    """The weights with weight decay, and those without.

    Biases, norms and embeddings do not decay: it would not regularise them. A tied output projection is an
    embedding.
    """
    embeddings = {id(m.weight) for m in network.modules() if isinstance(m, nn.Embedding)}
    decay: list[Tensor] = []
    keep: list[Tensor] = []
    for weight in network.parameters():
        if weight.requires_grad:
            (decay if weight.ndim >= 2 and id(weight) not in embeddings else keep).append(weight)
    return decay, keep


class _AdamW(torch.optim.AdamW):
    """torch's AdamW, without its import of torch's compiler: that takes a process over a second.

    torch imports the compiler only to keep it away from these methods.
    """

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        self.param_groups.append({**self.defaults, **param_group})

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]  # there is no closure
        inspect.unwrap(torch.optim.AdamW.step)(self)

    def zero_grad(self, set_to_none: bool = True) -> None:
        inspect.unwrap(torch.optim.AdamW.zero_grad)(self, set_to_none)


def build_optimiser(network: nn.Module, config: OptimisationConfig) -> torch.optim.AdamW:
    """AdamW over all weights; `fused` updates all of them in one kernel, on CPU and CUDA."""
    decay, keep = decay_groups(network)
    groups: list[dict[str, Any]] = [
        {"params": decay, "weight_decay": config.weight_decay},
        {"params": keep, "weight_decay": 0.0},
    ]
    return _AdamW(
        [group for group in groups if group["params"]],
        lr=config.learning_rate,
        betas=(config.beta1, config.beta2),
        eps=config.epsilon,
        fused=True,
    )


def weights_of(network: nn.Module) -> dict[str, Tensor]:
    """The network's weights by name; a tied weight has its first name only."""
    return {name: weight.detach() for name, weight in network.named_parameters()}


class WeightAverages:
    """An exponential moving average, and the mean of the last snapshots; each can be off.

    Args:
        network: Its weights are averaged.
        config: `ema_decay` and `average_last`.
    """

    def __init__(self, network: nn.Module, config: OptimisationConfig) -> None:
        self._weights = weights_of(network)
        self._decay = config.ema_decay
        self._window = config.average_last
        self._average = {n: w.clone() for n, w in self._weights.items()} if self._decay else {}
        self._snapshots: list[dict[str, Tensor]] = []

    @torch.no_grad()
    def follow(self, step: int) -> None:
        """Move the average towards the weights of this step (counted from 1).

        The decay of early steps is (1 + step) / (10 + step), so that the initial weights are forgotten soon.
        """
        if self._average:
            decay = min(self._decay, (1 + step) / (10 + step))
            torch._foreach_lerp_(list(self._average.values()), list(self._weights.values()), 1 - decay)

    @torch.no_grad()
    def take_snapshot(self) -> None:
        """Add the moving average, or else the weights, to the last snapshots."""
        if self._window:
            weights = self._average or self._weights
            self._snapshots.append({name: weight.clone() for name, weight in weights.items()})
            del self._snapshots[: -self._window]

    def current(self) -> dict[str, Tensor]:
        """A copy of the averaged weights."""
        if self._snapshots:
            first, *rest = self._snapshots
            count = len(rest) + 1
            return {n: torch.stack([w, *(s[n] for s in rest)]).sum(0) / count for n, w in first.items()}
        return {n: w.clone() for n, w in (self._average or self._weights).items()}

    def state_tensors(self) -> dict[str, Tensor]:
        """Everything to save, by name."""
        tensors = {f"average.{name}": weight for name, weight in self._average.items()}
        for i, snapshot in enumerate(self._snapshots):
            tensors |= {f"snapshot.{i}.{name}": weight for name, weight in snapshot.items()}
        return tensors

    @torch.no_grad()
    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore what `state_tensors` returned."""
        for name, weight in self._average.items():
            weight.copy_(tensors[f"average.{name}"])
        self._snapshots = []
        while f"snapshot.{len(self._snapshots)}.{next(iter(self._weights))}" in tensors:
            prefix = f"snapshot.{len(self._snapshots)}."
            self._snapshots.append(
                {n: tensors[prefix + n].to(w.device, copy=True) for n, w in self._weights.items()}
            )
