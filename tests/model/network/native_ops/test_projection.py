"""Native projections give what PyTorch gives under autocast, and gradients of weights more exactly."""

import pytest
import torch
from torch import Tensor

from model.native.operators import Operators
from model.network.native_ops.projection import Projection, project


def drawn(*shape: int, seed: int) -> Tensor:
    """Numbers that bfloat16 has."""
    numbers = torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
    return numbers.bfloat16().float()


@pytest.fixture
def operators_with_products(operators: Operators) -> Operators:
    if not operators.has_bfloat16_products:
        pytest.skip("this library has no bfloat16 products")
    return operators


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    ("rows", "inputs", "outputs"),
    [(1, 32, 16), (5, 64, 80), (77, 96, 64), (144, 32, 208), (1030, 64, 48), (9, 1184, 2080)],
)
def test_it_is_the_product_and_its_gradients(
    operators_with_products: Operators, rows: int, inputs: int, outputs: int, bias: bool
) -> None:
    states = drawn(rows, inputs, seed=1).requires_grad_()
    layer = Projection(inputs, outputs, bias=bias)
    with torch.no_grad():
        layer.weight.copy_(drawn(outputs, inputs, seed=2))
    slope = drawn(rows, outputs, seed=3)
    with torch.autocast("cpu", torch.bfloat16):
        native = project(states, layer.weight, layer.bias)
    assert native is not None
    exact = torch.nn.functional.linear(states, layer.weight, layer.bias)
    weights = [states, *layer.parameters()]
    ours = torch.autograd.grad(native, weights, slope.bfloat16())
    theirs = torch.autograd.grad(exact, weights, slope)
    assert native.dtype == torch.bfloat16
    torch.testing.assert_close(native.float(), exact, atol=1e-4, rtol=2**-8)
    torch.testing.assert_close(ours[0], theirs[0], atol=1e-4, rtol=2**-8)
    for of_weight, expected in zip(ours[1:], theirs[1:], strict=True):
        torch.testing.assert_close(of_weight, expected, atol=2e-4, rtol=1e-4)


def test_threads_change_nothing(operators_with_products: Operators) -> None:
    states, weight = drawn(300, 64, seed=1).bfloat16(), drawn(272, 64, seed=2).requires_grad_()
    before, found = torch.get_num_threads(), []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        with torch.autocast("cpu", torch.bfloat16):
            result = project(states, weight, None)
        assert result is not None
        found.append((result, *torch.autograd.grad(result.sum(), weight)))
    torch.set_num_threads(before)
    for some in found[1:]:
        assert all(torch.equal(ours, first) for ours, first in zip(some, found[0], strict=True))


def test_other_shapes_and_types_take_plain_pytorch(operators_with_products: Operators) -> None:
    states, layer = torch.randn(4, 32), Projection(32, 16)
    weight, bias = layer.weight, layer.bias
    with torch.autocast("cpu", torch.bfloat16):
        assert project(states, weight, bias) is not None
        assert project(states.view(2, 64), weight, bias) is None
        assert project(states[:0], weight, bias) is None
        assert project(states, weight, bias.bfloat16()) is None
        assert project(states, weight, bias[:15]) is None
        assert project(states, weight.bfloat16(), bias) is None
        with pytest.raises(RuntimeError, match="cannot be multiplied"):
            layer(states.view(2, 64))
        layer(states[:0]).sum().backward()
    assert weight.grad is not None
    assert not weight.grad.any()


def test_it_is_for_training_under_autocast_alone(operators: Operators) -> None:
    states, layer = torch.randn(4, 32), Projection(32, 16)
    assert project(states, layer.weight, layer.bias) is None
    with torch.autocast("cpu", torch.bfloat16):
        assert project(states[:, :24], layer.weight[:, :24], layer.bias) is None
        layer.eval()
        assert type(layer(states).grad_fn).__name__ != "_ProjectionBackward"
