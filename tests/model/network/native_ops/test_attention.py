"""Native attention gives what its reference in plain PyTorch gives, forward and backward."""

import pytest
import torch
from torch import Tensor

from model.config import TransformerConfig
from model.native.operators import Operators
from model.network.layers import Attention, key_mask
from model.network.native_ops import loading
from model.network.native_ops.attention import attend_sentences
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


@pytest.mark.parametrize("changes", [{}, {"attention_dim": 96, "attention_scale": 0.3}], ids=["", "T5"])
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
    changes: dict[str, object],
) -> None:
    attention = Attention(config(**changes))
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


def test_the_gradient_reads_what_was_saved_wherever_it_lies(operators: Operators) -> None:
    queries, sources = states(2, 5), states(2, 3, seed=1)
    with torch.autograd.graph.saved_tensors_hooks(lambda saved: saved, torch.zeros_like):
        result = attend_sentences(queries, sources.repeat(1, 1, 2), HEADS, None, causal=False, rate=0)
        assert result is not None
        found = torch.autograd.grad(result.sum(), [queries, sources])
    assert not any(gradient.any() for gradient in found)


def test_the_default_type_of_numbers_changes_nothing(operators: Operators) -> None:
    kept: list[Tensor] = []
    queries, sources = states(2, 5), states(2, 3, seed=1).repeat(1, 1, 2)
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.autograd.graph.saved_tensors_hooks(lambda saved: kept.append(saved), lambda _: None):
            attend_sentences(queries, sources, HEADS, None, causal=False, rate=0)
    finally:
        torch.set_default_dtype(torch.float32)
    assert [tensor.dtype for tensor in kept] == [torch.float32] * 3


@pytest.mark.parametrize(("sentences", "num_queries", "num_keys"), [(0, 2, 2), (2, 0, 3), (2, 3, 0)])
def test_nothing_attends_to_nothing(
    operators: Operators, sentences: int, num_queries: int, num_keys: int
) -> None:
    queries, sources = states(sentences, num_queries), states(sentences, num_keys)
    result = attend_sentences(queries, sources.repeat(1, 1, 2), HEADS, None, causal=False, rate=0.1)
    assert result is not None
    assert torch.equal(result, torch.zeros(sentences, num_queries, WIDTH))
    result.sum().backward()
    assert queries.grad is not None
    assert torch.equal(queries.grad, torch.zeros_like(queries))


@pytest.mark.parametrize(
    ("num_heads", "keys_values", "causal"),
    [
        (4, (1, 2, 64), False),  # heads that do not fill vectors
        (3, (1, 2, 64), False),  # heads that do not fill the width
        (2, (1, 2, 48), False),  # keys of another width
        (2, (2, 2, 64), False),  # keys of other sentences
        (2, (1, 1, 64), True),  # a query beyond the last key
    ],
)
def test_other_shapes_take_plain_pytorch(
    operators: Operators, num_heads: int, keys_values: tuple[int, ...], causal: bool
) -> None:
    queries = torch.zeros(1, 2, 32)
    assert attend_sentences(queries, torch.zeros(1, 2, 64), 2, None, causal=True, rate=0) is not None
    assert attend_sentences(queries, torch.zeros(keys_values), num_heads, None, causal=causal, rate=0) is None
