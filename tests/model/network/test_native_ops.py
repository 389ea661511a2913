"""The native operators give what their references in plain PyTorch give, forward and backward."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from model.config import TransformerConfig
from model.native.binding import ENVIRONMENT
from model.native.build import VARIANTS
from model.native.operators import Operators, load_operators
from model.network import native_ops
from model.network.layers import Attention, Dropout, key_mask
from model.network.native_ops import (
    Projection,
    add_dropped,
    address_of_threads,
    attend_sentences,
    installed_operators,
    norm_beside,
    operators_for,
    project,
)
from model.network.transformer import Transformer
from model.training.optimisation.objective import Smoothing, SummedLoss, label_smoothed_loss
from tests.model.native_library import native_library
from tests.model.tiny_networks import tiny_config

WIDTH, HEADS, PAD = 64, 2, 3
Drop = Callable[[Tensor, float], Tensor]


@pytest.fixture(autouse=True)
def _same_numbers() -> None:
    """Whichever tests were before: what is counted here may be off by so many deviations, but not by luck."""
    torch.manual_seed(3)


@pytest.fixture(params=sorted(VARIANTS))
def operators(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Operators:
    """Operators that `operators_for` gives while the test runs."""
    chosen = Operators(native_library(request.param))
    chosen.lend_threads(address_of_threads())
    monkeypatch.setattr(native_ops, "installed_operators", lambda: chosen)
    return chosen


@pytest.fixture
def operators_with_products(operators: Operators) -> Operators:
    if not operators.has_bfloat16_products():
        pytest.skip("this library has no bfloat16 products")
    return operators


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).requires_grad_()


def known(result: Tensor | None) -> Tensor:
    assert result is not None
    return result


def without_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_ops, "installed_operators", lambda: None)


def normed(states: Tensor) -> Tensor | None:
    both = norm_beside(states, nn.LayerNorm(WIDTH, dtype=torch.float32))
    return None if both is None else both[1]


def loss_of(states: Tensor) -> Tensor:
    labels = torch.ones(states.shape[:2], dtype=torch.int64)
    return label_smoothed_loss(states, labels, Smoothing(0.1, 0, WIDTH)).smoothed


OPERATORS: dict[str, Callable[[Tensor], Tensor | None]] = {
    "attention": lambda x: attend_sentences(x, torch.cat([x, x], 2), HEADS, None, causal=False, rate=0.2),
    "projection": lambda x: project(
        x, torch.linspace(-1, 1, 272 * WIDTH, dtype=torch.float32).view(272, WIDTH), None
    ),
    "dropout": lambda x: add_dropped(None, x, 0.1),
    "sum": lambda x: add_dropped(x, x, 0.1),
    "norm": normed,
    "loss": loss_of,
}


@pytest.fixture(params=OPERATORS)
def operator(request: pytest.FixtureRequest, operators: Operators) -> Callable[[Tensor], Tensor]:
    """An operator of one tensor, (…, WIDTH); each call drops the same numbers."""
    is_projection = request.param == "projection"
    if is_projection and not operators.has_bfloat16_products():
        pytest.skip("this library has no bfloat16 products")

    def call(states: Tensor) -> Tensor:
        torch.manual_seed(5)
        with torch.autocast("cpu", torch.bfloat16, enabled=is_projection):
            return known(OPERATORS[request.param](states))

    return call


def test_a_graph_of_gradients_is_refused(operator: Callable[[Tensor], Tensor]) -> None:
    """Second derivatives would be silently wrong."""
    states = numbers(2, 3, WIDTH)
    total = operator(states).float().sum()
    for loss in (total, total**2):
        with pytest.raises(RuntimeError, match="first derivatives only"):
            torch.autograd.grad(loss, states, create_graph=True, retain_graph=True)
    (gradient,) = torch.autograd.grad(total, states)
    assert not gradient.requires_grad


def result_and_gradient(operator: Callable[[Tensor], Tensor], states: Tensor) -> tuple[Tensor, Tensor]:
    result = operator(states)
    slope = numbers(*result.shape, seed=8).detach()
    return result.detach(), torch.autograd.grad((result.float() * slope).sum(), states)[0]


def test_threads_and_who_lends_them_change_nothing(
    operators: Operators, operator: Callable[[Tensor], Tensor]
) -> None:
    states, before, found = numbers(40, 9, WIDTH), torch.get_num_threads(), []
    for threads, lender in ((1, address_of_threads()), (3, address_of_threads()), (3, None)):
        operators.lend_threads(lender)
        torch.set_num_threads(threads)
        found.append(result_and_gradient(operator, states))
    torch.set_num_threads(before)
    for some in found[1:]:
        assert all(torch.equal(ours, first) for ours, first in zip(some, found[0], strict=True))


def test_the_default_type_of_numbers_changes_nothing(operator: Callable[[Tensor], Tensor]) -> None:
    states, found = numbers(7, 5, WIDTH), []
    for dtype in (torch.float32, torch.bfloat16):
        result = None
        torch.set_default_dtype(dtype)
        try:
            result = operator(states)
        finally:
            torch.set_default_dtype(torch.float32)
        found.append(torch.autograd.grad(result.float().sum(), states)[0])
    assert torch.equal(*found)


def test_operators_are_for_float32_and_bfloat16_on_a_cpu_and_no_compiled_network(
    operators: Operators, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert operators_for(torch.zeros(1), torch.zeros(1, dtype=torch.bfloat16)) is operators
    assert operators_for(torch.zeros(1), torch.zeros(1, dtype=torch.float16)) is None
    assert operators_for(torch.zeros(1, device="meta")) is None
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert operators_for(torch.zeros(1)) is None


def test_without_the_native_library_there_are_none_and_the_log_says_why(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(ENVIRONMENT, "off")
    load_operators.cache_clear()
    installed_operators.cache_clear()
    with caplog.at_level("INFO"):
        assert operators_for(torch.zeros(1)) is None
        assert operators_for(torch.zeros(1)) is None
    (record,) = caplog.records
    assert record.getMessage() == "training with PyTorch alone, not natively: DRAGOMAN_NATIVE is off"
    load_operators.cache_clear()
    installed_operators.cache_clear()


def test_the_openmp_that_pytorch_brings_along_lends_its_threads() -> None:
    brought = list((Path(torch.__file__).parent / "lib").glob("libgomp*.so*"))
    assert (address_of_threads() is not None) or not brought


def test_a_broken_openmp_lends_no_threads_and_the_log_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "torch" / "lib").mkdir(parents=True)
    (tmp_path / "torch" / "lib" / "libgomp-broken.so.1").write_text("no library")
    monkeypatch.setattr(torch, "__file__", str(tmp_path / "torch" / "__init__.py"))
    assert address_of_threads() is None
    (record,) = caplog.records
    assert record.getMessage().startswith("training natively without the threads of libgomp-broken.so.1: ")


@pytest.fixture(params=[*sorted(VARIANTS), "PyTorch"])
def drop(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Drop:
    """Dropout in training, by one of the libraries or by PyTorch."""
    chosen = None if request.param == "PyTorch" else Operators(native_library(request.param))
    monkeypatch.setattr(native_ops, "installed_operators", lambda: chosen)
    return lambda states, rate: Dropout(rate).train()(states)


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_the_rate_is_kept_and_so_is_the_mean(drop: Drop, rate: float) -> None:
    kept = drop(torch.ones(400, 1000), rate)
    assert float((kept == 0).float().mean()) == pytest.approx(rate, abs=0.004)
    assert kept.unique().tolist() == pytest.approx([0, 1 / (1 - rate)], rel=1e-4)


def test_neighbours_and_rows_are_independent(drop: Drop) -> None:
    kept = (drop(torch.ones(2000, 64), 0.5) > 0).float() - 0.5
    correlations = kept.T @ kept / len(kept) * 4 - torch.eye(64)
    assert float(correlations.abs().max()) < 0.12
    for distance in (1, 2, 16, 64, 65536 // 64):
        assert abs(float((kept[distance:] * kept[:-distance]).mean())) < 0.005


def test_each_call_drops_others_and_equal_seeds_the_same(drop: Drop) -> None:
    ones = torch.ones(64, 64)
    torch.manual_seed(1)
    first, second = drop(ones, 0.5), drop(ones, 0.5)
    torch.manual_seed(1)
    assert torch.equal(first, drop(ones, 0.5))
    assert float(((first > 0) == (second > 0)).float().mean()) == pytest.approx(0.5, abs=0.05)


def test_the_gradient_of_dropout_has_the_same_mask(drop: Drop) -> None:
    update = numbers(20, 48)
    result = drop(update, 0.3)
    (gradient,) = torch.autograd.grad(result.sum(), update)
    torch.testing.assert_close(gradient * update, result)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_adding_is_adding_what_is_dropped(operators: Operators, dtype: torch.dtype) -> None:
    stream, update = numbers(20, 48), numbers(20, 48, seed=1).detach().to(dtype).requires_grad_()
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
    stream, norm = numbers(3, 37, 48), nn.LayerNorm(48, bias=bias)
    for i, weight in enumerate(norm.parameters()):
        nn.init.normal_(weight, 1 - i, 0.3, generator=torch.Generator().manual_seed(i))
    slopes = numbers(2, 3, 37, 48, seed=9).detach()
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


def test_other_norms_widths_and_types_take_plain_pytorch(operators: Operators) -> None:
    assert norm_beside(torch.zeros(2, 24), nn.LayerNorm(24)) is None
    assert norm_beside(torch.zeros(2, 32), nn.RMSNorm(32)) is None
    assert norm_beside(torch.zeros(2, 32), nn.LayerNorm(32, elementwise_affine=False)) is None
    assert norm_beside(torch.zeros(2, 32), nn.LayerNorm(16)) is None
    assert norm_beside(torch.zeros(2, 32), nn.LayerNorm((2, 32))) is None
    assert norm_beside(torch.zeros(2, 32, dtype=torch.float64), nn.LayerNorm(32)) is None
    assert add_dropped(None, torch.zeros(5), 0.1) is None
    assert add_dropped(torch.zeros(1, 16), torch.zeros(2, 16), 0.1) is None


def config(**changes: object) -> TransformerConfig:
    return tiny_config(model_dim=WIDTH, num_heads=HEADS, **changes)


def states(*shape: int, seed: int = 0) -> Tensor:
    return numbers(*shape, WIDTH, seed=seed)


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
def test_attention_is_the_reference(
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
        without_operators(monkeypatch)
        reference = computed(attention, queries, sources, mask, causal=causal)
    for ours, theirs in zip(native, reference, strict=True):
        scale = float(theirs.detach().abs().max())
        tolerance = 2e-2 if dtype == torch.bfloat16 else 1e-5
        torch.testing.assert_close(ours, theirs, atol=tolerance * scale, rtol=0)


def test_dropout_of_attention_weights_is_the_same_forward_and_backward(operators: Operators) -> None:
    """With values of one, a result is the sum of the weights that were kept; linear in the values."""
    queries, sources = states(4, 6).detach(), states(4, 9, seed=1).detach().repeat(1, 1, 2)
    sources.requires_grad_()

    def attended(keys_values: Tensor) -> Tensor:
        torch.manual_seed(5)
        return known(attend_sentences(queries, keys_values, HEADS, None, causal=False, rate=0.4))

    result = attended(sources)
    values = sources[..., WIDTH:]
    (gradient,) = torch.autograd.grad(result.sum(), sources)
    torch.testing.assert_close((gradient[..., WIDTH:] * values).sum(), result.sum(), rtol=1e-4, atol=1e-3)
    moved = sources.detach().clone()
    moved[..., :WIDTH] += 1e-2
    expected = (attended(moved) - result).sum()
    torch.testing.assert_close(1e-2 * gradient[..., :WIDTH].sum(), expected, rtol=5e-2, atol=1e-2)


def test_dropout_of_attention_weights_keeps_the_mean(operators: Operators) -> None:
    ones = torch.ones(64, 16, 2 * WIDTH)
    result = known(attend_sentences(torch.zeros(64, 16, WIDTH), ones, HEADS, None, causal=False, rate=0.3))
    assert abs(float(result.mean()) - 1) < 0.02
    assert float(result.var()) == pytest.approx(0.3 / 0.7 / 16, rel=0.2)


def test_the_gradient_of_attention_reads_what_was_saved_wherever_it_lies(operators: Operators) -> None:
    queries, sources = states(2, 5), states(2, 3, seed=1)
    with torch.autograd.graph.saved_tensors_hooks(lambda saved: saved, torch.zeros_like):
        result = known(attend_sentences(queries, sources.repeat(1, 1, 2), HEADS, None, causal=False, rate=0))
        found = torch.autograd.grad(result.sum(), [queries, sources])
    assert not any(gradient.any() for gradient in found)


@pytest.mark.parametrize(("sentences", "num_queries", "num_keys"), [(0, 2, 2), (2, 0, 3), (2, 3, 0)])
def test_nothing_attends_to_nothing(
    operators: Operators, sentences: int, num_queries: int, num_keys: int
) -> None:
    queries, sources = states(sentences, num_queries), states(sentences, num_keys)
    result = known(attend_sentences(queries, sources.repeat(1, 1, 2), HEADS, None, causal=False, rate=0.1))
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
def test_attention_of_other_shapes_takes_plain_pytorch(
    operators: Operators, num_heads: int, keys_values: tuple[int, ...], causal: bool
) -> None:
    queries = torch.zeros(1, 2, 32)
    assert attend_sentences(queries, torch.zeros(1, 2, 64), 2, None, causal=True, rate=0) is not None
    assert attend_sentences(queries, torch.zeros(keys_values), num_heads, None, causal=causal, rate=0) is None


def drawn(*shape: int, seed: int) -> Tensor:
    """Numbers that bfloat16 has."""
    return numbers(*shape, seed=seed).detach().bfloat16().float()


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    ("rows", "inputs", "outputs"),
    [(1, 32, 16), (5, 64, 80), (77, 96, 64), (144, 32, 208), (1030, 64, 48), (9, 1184, 2080)],
)
def test_a_projection_is_the_product_and_its_gradients(
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


def test_projections_of_other_shapes_and_types_take_plain_pytorch(operators_with_products: Operators) -> None:
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


def test_projections_are_native_in_training_under_autocast_alone(operators: Operators) -> None:
    states, layer = torch.randn(4, 32), Projection(32, 16)
    assert project(states, layer.weight, layer.bias) is None
    with torch.autocast("cpu", torch.bfloat16):
        assert project(states[:, :24], layer.weight[:, :24], layer.bias) is None
        layer.eval()
        assert type(layer(states).grad_fn).__name__ != "_ProjectionBackward"


def inputs(vocabulary: int, dtype: torch.dtype, rows: int = 70) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(vocabulary)
    logits = 4 * torch.randn(rows, vocabulary, generator=generator)
    labels = torch.randint(vocabulary, (rows,), generator=generator)
    labels[::5] = PAD
    return logits.to(dtype).requires_grad_(), labels


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("vocabulary", "fill", "share"), [(11, 0, 0.1), (64, 0, 0.0), (1003, 0, 0.1), (29, 3, 0.1)]
)
def test_the_loss_is_the_reference(
    operators: Operators,
    vocabulary: int,
    fill: int,
    share: float,
    dtype: torch.dtype,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rows that fill up the vocabulary are left out."""
    logits, labels = inputs(vocabulary + fill, dtype)
    labels.clamp_(max=vocabulary - 1)

    def computed() -> tuple[SummedLoss, Tensor]:
        loss = label_smoothed_loss(logits, labels, Smoothing(share, PAD, vocabulary))
        return loss, torch.autograd.grad(loss.smoothed / 7, logits)[0]

    native, slope = computed()
    without_operators(monkeypatch)
    reference, expected = computed()
    torch.testing.assert_close(native.smoothed, reference.smoothed)
    torch.testing.assert_close(native.cross_entropy, reference.cross_entropy)
    assert slope.dtype == dtype
    # In bfloat16 the reference rounds twice, the operator once.
    tolerance = {"atol": 1e-7, "rtol": 1e-5} if dtype == torch.float32 else {"atol": 1e-9, "rtol": 2**-7}
    torch.testing.assert_close(slope, expected, **tolerance)
    assert not slope[:, vocabulary:].any()


def test_the_gradient_of_the_loss_reads_what_was_saved_wherever_it_lies(operators: Operators) -> None:
    """As zeros, a row is log softmax with a normaliser of 0 and the label 0."""
    logits, labels = inputs(11, torch.float32)
    with torch.autograd.graph.saved_tensors_hooks(lambda saved: saved, torch.zeros_like):
        loss = label_smoothed_loss(logits, labels, Smoothing(0.1, PAD, 11))
        (slope,) = torch.autograd.grad(loss.smoothed, logits)
    expected = torch.full((11,), 1 - 0.1 / 9)
    expected[0], expected[PAD] = 0.1, 1
    torch.testing.assert_close(slope, expected.expand_as(slope))


def test_labels_that_do_not_fit_the_rows_are_refused(operators: Operators) -> None:
    logits, labels = inputs(11, torch.float32)
    smoothing = Smoothing(0.1, PAD, 11)
    with pytest.raises(ValueError, match=r"must be 70 numbers of torch\.int64, but are 69 of torch\.int64"):
        label_smoothed_loss(logits, labels[:-1], smoothing)
    with pytest.raises(ValueError, match=r"but are 70 of torch\.int32"):
        label_smoothed_loss(logits, labels.int(), smoothing)
    for pad_id in (-100, 11):
        with pytest.raises(IndexError, match=str(pad_id)):
            label_smoothed_loss(logits, labels, Smoothing(0.1, pad_id, 11))
    labels[4] = 11
    with pytest.raises(IndexError, match="11"):
        label_smoothed_loss(logits, labels, smoothing)


SHAPES: dict[str, dict[str, object]] = {
    "pre-norm": {"norm_position": "pre", "final_norm": True},
    "post-norm": {"norm_position": "post"},
    "rotary": {"positions": "rotary"},
    "relative": {"positions": "relative"},
    "decoder alone": {"num_encoder_layers": 0},
}


def gradients(network: Transformer, dtype: torch.dtype) -> dict[str, Tensor]:
    """Of the loss of one batch with padding, without dropout; and the loss itself."""
    config, generator = network.config, torch.Generator().manual_seed(4)
    source = torch.randint(4, config.source_vocab_size, (5, 9), generator=generator)
    target = torch.randint(4, config.target_vocab_size, (5, 7), generator=generator)
    source[1, 4:], target[2, 3:] = config.pad_id, config.pad_id
    network.zero_grad()
    with torch.autocast("cpu", dtype, enabled=dtype != torch.float32):
        logits = network(source if config.num_encoder_layers else None, target)
        loss = label_smoothed_loss(logits, target, Smoothing(0.1, config.pad_id, config.target_vocab_size))
    (loss.smoothed / 30).backward()
    found = {name: weight.grad for name, weight in network.named_parameters() if weight.grad is not None}
    return {"loss": loss.smoothed.detach(), **found}


def network_of(shape: str, seed: int = 0) -> Transformer:
    torch.manual_seed(seed)
    no_dropout = {"residual_dropout": 0.0, "embedding_dropout": 0.0, "attention_dropout": 0.0}
    return Transformer(tiny_config(model_dim=64, num_heads=2, **no_dropout, **SHAPES[shape]))


def distance(some: dict[str, Tensor], others: dict[str, Tensor]) -> float:
    """Between all gradients, relative to their length."""
    assert some.keys() == others.keys()
    names = others.keys() - {"loss"}
    apart = torch.stack([(some[name] - others[name]).norm() for name in names])
    return float(apart.norm() / torch.stack([others[name].norm() for name in names]).norm())


@pytest.mark.parametrize("shape", SHAPES)
def test_every_weight_gets_the_same_gradient(
    operators: Operators, shape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = network_of(shape)
    native = gradients(network, torch.float32)
    without_operators(monkeypatch)
    reference = gradients(network, torch.float32)
    for name, expected in reference.items():
        close = 1e-4 * float(expected.norm()) + 1e-6
        assert float((native[name] - expected).norm()) <= close, name


@pytest.mark.parametrize("shape", SHAPES)
def test_in_bfloat16_gradients_are_as_near_to_those_in_float32(
    operators: Operators, shape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    networks = [network_of(shape, seed) for seed in range(4)]
    native = [gradients(network, torch.bfloat16) for network in networks]
    without_operators(monkeypatch)
    reference = [gradients(network, torch.bfloat16) for network in networks]
    exact = [gradients(network, torch.float32) for network in networks]
    ours = sum(map(distance, native, exact)) / len(networks)
    theirs = sum(map(distance, reference, exact)) / len(networks)
    assert ours <= 1.15 * theirs
