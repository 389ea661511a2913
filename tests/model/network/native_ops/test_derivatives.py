"""Native operators refuse second derivatives, which would be silently wrong."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from model.native.operators import Operators
from model.network.native_ops.attention import attend_sentences
from model.network.native_ops.projection import project
from model.network.native_ops.residual import add_dropped, dropped, norm_beside
from model.training.optimisation.objective import Smoothing, label_smoothed_loss

WIDTH = 64


def normed(states: Tensor) -> Tensor | None:
    both = norm_beside(states, nn.LayerNorm(WIDTH))
    return None if both is None else both[1]


OPERATORS: dict[str, Callable[[Tensor], Tensor | None]] = {
    "attention": lambda x: attend_sentences(x, torch.cat([x, x], 2), 2, None, causal=False, rate=0),
    "projection": lambda x: project(x, torch.ones(16, WIDTH), None),
    "dropout": lambda x: dropped(x, 0.1),
    "sum": lambda x: add_dropped(x, x, 0.1),
    "norm": normed,
    "loss": lambda x: (
        label_smoothed_loss(x, torch.ones(x.shape[:2], dtype=torch.int64), Smoothing(0.1, 0, WIDTH)).smoothed
    ),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_a_graph_of_gradients_is_refused(operators: Operators, name: str) -> None:
    if name == "projection" and not operators.has_bfloat16_products:
        pytest.skip("this library has no bfloat16 products")
    states = torch.randn(2, 3, WIDTH, generator=torch.Generator().manual_seed(0)).requires_grad_()
    with torch.autocast("cpu", torch.bfloat16, enabled=name == "projection"):
        result = OPERATORS[name](states)
    assert result is not None
    total = result.float().sum()
    for loss in (total, total**2):
        with pytest.raises(RuntimeError, match="first derivatives only"):
            torch.autograd.grad(loss, states, create_graph=True, retain_graph=True)
    (gradient,) = torch.autograd.grad(total, states)
    assert not gradient.requires_grad
