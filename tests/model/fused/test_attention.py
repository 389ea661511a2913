"""Native attention gives what its reference in plain PyTorch gives, forward and backward."""

import pytest
import torch
from torch import Tensor

from model.blocks import Attention, key_mask
from model.config import TransformerConfig
from model.fused import loading
from model.fused.attention import attend_sentences
from model.native.operators import Operators
from tests.model.tiny_networks import tiny_config

WIDTH, HEADS = 64, 2


def config(**changes: object) -> TransformerConfig:
    return tiny_config(model_dim=WIDTH, num_heads=HEADS, **changes)


def states(*shape: int, seed: int = 0) -> Tensor:
    drawn = torch.randn(*shape, WIDTH, generator=torch.Generator().manual_seed(seed))
    return drawn.requires_grad_()


def look(sentences: int, keys: int) -> Tensor:
    lengths = torch.randint(1, keys + 1, (sentences,), generator=torch.Generator().manual_seed(2))
    return key_mask(torch.arange(keys) < lengths[:, None])


def computed(
    attention: Attention, queries: Tensor, sources: Tensor, mask: Tensor | None, *, causal: bool
) -> list[Tensor]:
    """The result, and the gradients of the inputs and of all weights."""
    result = attention(queries, sources, mask, causal=causal)
    slope = torch.randn(result.shape, generator=torch.Generator().manual_seed(3))
    inputs = [queries, sources, *attention.parameters()]
    return [result, *torch.autograd.grad((result.float() * slope).sum(), inputs)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("num_queries", "num_keys", "masked", "causal"),
    [(1, 1, False, False), (7, 5, True, False), (13, 13, False, True), (16, 33, True, False)],
)
def test_it_is_the_reference(
    operators: Operators,
    monkeypatch: pytest.MonkeyPatch,
    num_queries: int,
    num_keys: int,
    masked: bool,
    causal: bool,
    dtype: torch.dtype,
) -> None:
    attention = Attention(config())
    queries, sources = states(3, num_queries), states(3, num_keys, seed=1)
    mask = look(3, num_keys) if masked else None
    with torch.autocast("cpu", dtype, enabled=dtype != torch.float32):
        native = computed(attention, queries, sources, mask, causal=causal)
        monkeypatch.setattr(loading, "installed_operators", lambda: None)
        reference = computed(attention, queries, sources, mask, causal=causal)
    for ours, theirs in zip(native, reference, strict=True):
        scale = float(theirs.detach().abs().max())
        tolerance = 2e-2 if dtype == torch.bfloat16 else 1e-5
        torch.testing.assert_close(ours, theirs, atol=tolerance * scale, rtol=0)


def test_dropout_of_the_weights_is_the_same_forward_and_backward(operators: Operators) -> None:
    """With values of one, a result is the sum of the weights that were kept; linear in the values."""
    queries, sources = states(4, 6).detach(), states(4, 9, seed=1).detach().repeat(1, 1, 2)
    sources.requires_grad_()

    def attended(numbers: Tensor) -> Tensor:
        torch.manual_seed(5)
        result = attend_sentences(queries, numbers, HEADS, None, causal=False, rate=0.4)
        assert result is not None
        return result

    result = attended(sources)
    values = sources[..., WIDTH:]
    (gradient,) = torch.autograd.grad(result.sum(), sources)
    torch.testing.assert_close((gradient[..., WIDTH:] * values).sum(), result.sum(), rtol=1e-4, atol=1e-3)
    moved = sources.detach().clone()
    moved[..., :WIDTH] += 1e-2
    expected = (attended(moved) - result).sum()
    torch.testing.assert_close(1e-2 * gradient[..., :WIDTH].sum(), expected, rtol=5e-2, atol=1e-2)


def test_dropout_keeps_the_mean(operators: Operators) -> None:
    ones = torch.ones(64, 16, 2 * WIDTH)
    result = attend_sentences(torch.zeros(64, 16, WIDTH), ones, HEADS, None, causal=False, rate=0.3)
    assert result is not None
    assert abs(float(result.mean()) - 1) < 0.02
    assert float(result.var()) == pytest.approx(0.3 / 0.7 / 16, rel=0.2)


def test_heads_of_odd_width_take_plain_pytorch(operators: Operators) -> None:
    assert (
        attend_sentences(torch.zeros(1, 2, 24), torch.zeros(1, 2, 48), 2, None, causal=False, rate=0) is None
    )
