"""ⓔ AdamW, and which weights decay."""

from typing import Any

import torch
from torch import Tensor, nn

from model.training.config.optimisation import OptimisationConfig


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


def build_optimiser(network: nn.Module, config: OptimisationConfig) -> torch.optim.AdamW:
    """AdamW over all weights; `fused` updates all of them in one kernel, on CPU and CUDA."""
    decay, keep = decay_groups(network)
    groups: list[dict[str, Any]] = [
        {"params": decay, "weight_decay": config.weight_decay},
        {"params": keep, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        [group for group in groups if group["params"]],
        lr=config.learning_rate,
        betas=(config.beta1, config.beta2),
        eps=config.epsilon,
        fused=True,
    )
