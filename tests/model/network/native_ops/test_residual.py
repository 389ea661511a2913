"""Native dropout, addition and layer norm give what plain PyTorch gives."""

import pytest
import torch
from torch import Tensor, nn

from model.native.operators import Operators
from model.network.native_ops.residual import add_dropped, dropped, norm_beside

WIDTH = 48


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).requires_grad_()


def known(result: Tensor | None) -> Tensor:
    assert result is not None
    return result


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_the_rate_is_kept_and_so_is_the_mean(operators: Operators, rate: float) -> None:
    kept = known(dropped(torch.ones(400, 1000), rate))
    assert float((kept == 0).float().mean()) == pytest.approx(rate, abs=0.004)
    assert kept.unique().tolist() == pytest.approx([0, 1 / (1 - rate)])


def test_neighbours_and_rows_are_independent(operators: Operators) -> None:
    kept = (known(dropped(torch.ones(2000, 64), 0.5)) > 0).float() - 0.5
    correlations = kept.T @ kept / len(kept) * 4 - torch.eye(64)
    assert float(correlations.abs().max()) < 0.12
    for distance in (1, 2, 16, 64, 65536 // 64):
        assert abs(float((kept[distance:] * kept[:-distance]).mean())) < 0.005


def test_each_call_drops_others_and_equal_seeds_the_same(operators: Operators) -> None:
    ones = torch.ones(64, 64)
    torch.manual_seed(1)
    first, second = known(dropped(ones, 0.5)), known(dropped(ones, 0.5))
    torch.manual_seed(1)
    assert torch.equal(first, known(dropped(ones, 0.5)))
    assert float(((first > 0) == (second > 0)).float().mean()) == pytest.approx(0.5, abs=0.05)


def test_the_gradient_of_dropout_has_the_same_mask(operators: Operators) -> None:
    update = numbers(20, WIDTH)
    result = known(dropped(update, 0.3))
    (gradient,) = torch.autograd.grad(result.sum(), update)
    torch.testing.assert_close(gradient * update, result)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_adding_is_adding_what_is_dropped(operators: Operators, dtype: torch.dtype) -> None:
    stream, update = numbers(20, WIDTH), numbers(20, WIDTH, seed=1).detach().to(dtype).requires_grad_()
    result = known(add_dropped(stream, update, 0.25))
    of_stream, of_update = torch.autograd.grad(result.sum(), [stream, update])
    assert of_update.dtype == dtype
    torch.testing.assert_close(of_stream, torch.ones_like(stream))
    expected = stream + update.float() * of_update.float()
    torch.testing.assert_close(result, expected, atol=2e-2 if dtype == torch.bfloat16 else 1e-6, rtol=0)
    assert float((of_update == 0).float().mean()) == pytest.approx(0.25, abs=0.06)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_norm_and_what_passes_it_are_the_reference(
    operators: Operators, dtype: torch.dtype, bias: bool
) -> None:
    stream, norm = numbers(3, 37, WIDTH), nn.LayerNorm(WIDTH, bias=bias)
    for i, weight in enumerate(norm.parameters()):
        nn.init.normal_(weight, 1 - i, 0.3, generator=torch.Generator().manual_seed(i))
    slopes = numbers(2, 3, 37, WIDTH, seed=9).detach()
    with torch.autocast("cpu", dtype, enabled=dtype != torch.float32):
        together = norm_beside(stream, norm)
        expected = norm(stream).to(dtype)
    assert together is not None
    past, normed = together
    tolerance = 1e-2 if dtype == torch.bfloat16 else 1e-5
    assert normed.dtype == dtype
    torch.testing.assert_close(past, stream)
    torch.testing.assert_close(normed, expected, atol=tolerance, rtol=tolerance)
    inputs = [stream, *norm.parameters()]
    native = torch.autograd.grad((past * slopes[0]).sum() + (normed * slopes[1]).sum(), inputs)
    reference = torch.autograd.grad((stream * slopes[0]).sum() + (expected * slopes[1]).sum(), inputs)
    for ours, theirs in zip(native, reference, strict=True):
        torch.testing.assert_close(ours, theirs, atol=5 * tolerance, rtol=5 * tolerance)


def test_the_default_type_of_numbers_changes_nothing(operators: Operators) -> None:
    stream, norm = numbers(7, WIDTH), nn.LayerNorm(WIDTH)
    found = []
    for dtype in (torch.float32, torch.bfloat16):
        torch.set_default_dtype(dtype)
        try:
            together = norm_beside(stream, norm)
        finally:
            torch.set_default_dtype(torch.float32)
        assert together is not None
        found.append(torch.autograd.grad((together[1] * numbers(7, WIDTH, seed=1)).sum(), stream)[0])
    assert torch.equal(*found)


def test_other_norms_widths_and_types_take_plain_pytorch(operators: Operators) -> None:
    assert norm_beside(torch.zeros(2, 24), nn.LayerNorm(24)) is None
    assert norm_beside(torch.zeros(2, 32), nn.RMSNorm(32)) is None
    assert norm_beside(torch.zeros(2, 32), nn.LayerNorm(32, elementwise_affine=False)) is None
    assert norm_beside(torch.zeros(2, 32), nn.LayerNorm(16)) is None
    assert norm_beside(torch.zeros(2, 32), nn.LayerNorm((2, 32))) is None
    assert norm_beside(torch.zeros(2, 32, dtype=torch.float64), nn.LayerNorm(32)) is None
    assert dropped(torch.zeros(5), 0.1) is None
    assert add_dropped(torch.zeros(1, 16), torch.zeros(2, 16), 0.1) is None
