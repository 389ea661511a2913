"""Second derivatives: gradients that are written natively have none, and must not pass for constants."""

import torch


def require_first_derivative() -> None:
    """Called in a backward pass, refuses to be part of one that is to be differentiated itself.

    `once_differentiable` would let through what begins with a constant slope, as that of a loss does.

    Raises:
        RuntimeError: If a graph of the gradients is asked for.
    """
    if torch.is_grad_enabled():  # in a backward pass, it is for `create_graph=True` alone
        raise RuntimeError(
            "native operators have first derivatives only; for create_graph=True, use PyTorch alone"
        )
