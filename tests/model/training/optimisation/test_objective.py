from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from model.network.transformer import Transformer
from model.training.optimisation import objective, step
from model.training.optimisation.objective import (
    Smoothing,
    SummedLoss,
    label_smoothed_loss,
    projected_loss,
    r_drop_loss,
    rows_at_once,
    symmetric_divergence,
)
from model.training.optimisation.step import Updater
from tests.model.tiny_networks import noise, tiny_config
from tests.model.training.optimisation.test_step import batch
from tests.model.training.tiny_runs import tiny_run

PAD, VOCAB = 0, 11


def scores(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, VOCAB, generator=torch.Generator().manual_seed(seed)).requires_grad_()


def labels(*shape: int) -> Tensor:
    drawn = torch.randint(1, VOCAB, shape, generator=torch.Generator().manual_seed(1))
    drawn[-1, -2:] = PAD
    return drawn


def loss_of(logits: Tensor, wanted: Tensor, share: float, vocab_size: int = VOCAB) -> SummedLoss:
    return label_smoothed_loss(logits, wanted, Smoothing(share, PAD, vocab_size))


def reference(logits: Tensor, wanted: Tensor, share: float) -> Tensor:
    """−Σ q log p with q written out token by token."""
    total = torch.zeros(())
    for logs, label in zip(logits.log_softmax(-1).flatten(0, 1), wanted.flatten().tolist(), strict=True):
        if label != PAD:
            q = torch.full((VOCAB,), share / (VOCAB - 2))
            q[PAD], q[label] = 0.0, 1 - share
            assert torch.isclose(q.sum(), torch.tensor(1.0))
            total = total - (q * logs).sum()
    return total


@pytest.mark.parametrize("share", [0.0, 0.1])
def test_the_loss_is_the_written_out_sum_in_value_and_gradient(share: float) -> None:
    ours, theirs, wanted = scores(3, 5), scores(3, 5), labels(3, 5)
    loss = loss_of(ours, wanted, share)
    expected = reference(theirs, wanted, share)
    (2.5 * loss.smoothed).backward()
    (2.5 * expected).backward()
    torch.testing.assert_close(loss.smoothed, expected)
    torch.testing.assert_close(ours.grad, theirs.grad)
    rows = theirs.detach().flatten(0, 1)
    plain = functional.cross_entropy(rows, wanted.flatten(), ignore_index=PAD, reduction="sum")
    torch.testing.assert_close(loss.cross_entropy, plain)


def test_padding_gets_no_probability() -> None:
    """The optimum of the smoothed loss is q itself: there the gradient vanishes, with P(pad) = 0."""
    q = torch.full((1, 1, VOCAB), 0.1 / (VOCAB - 2))
    q[0, 0, PAD], q[0, 0, 4] = 1e-30, 0.9
    logits = q.log().requires_grad_()
    loss_of(logits, torch.tensor([[4]]), 0.1).smoothed.backward()
    assert logits.grad is not None
    torch.testing.assert_close(logits.grad, torch.zeros_like(logits), atol=1e-6, rtol=0)


def test_more_padding_changes_nothing() -> None:
    logits, wanted = scores(3, 5), labels(3, 5)
    wider = torch.cat([logits.detach(), torch.randn(3, 4, VOCAB)], 1).requires_grad_()
    padded = functional.pad(wanted, (0, 4), value=PAD)
    loss, more = loss_of(logits, wanted, 0.1), loss_of(wider, padded, 0.1)
    loss.smoothed.backward()
    more.smoothed.backward()
    torch.testing.assert_close(more.smoothed, loss.smoothed)
    assert logits.grad is not None
    assert wider.grad is not None
    torch.testing.assert_close(wider.grad[:, :5], logits.grad)
    assert not wider.grad[:, 5:].any()


def test_rows_that_pad_the_vocabulary_play_no_part() -> None:
    logits, wanted = scores(3, 5), labels(3, 5)
    wider = functional.pad(logits.detach(), (0, 5), value=float("-inf")).requires_grad_()
    loss, padded = loss_of(logits, wanted, 0.1), loss_of(wider, wanted, 0.1)
    padded.smoothed.backward()
    torch.testing.assert_close(padded.smoothed, loss.smoothed)
    assert wider.grad is not None
    assert wider.grad.isfinite().all()
    assert not wider.grad[..., VOCAB:].any()


def test_bfloat16_scores_are_summed_in_float32() -> None:
    logits, wanted = scores(30, 20), torch.randint(1, VOCAB, (30, 20))
    rounded = logits.detach().bfloat16().requires_grad_()
    loss = loss_of(rounded, wanted, 0.1).smoothed
    loss.backward()
    assert loss.dtype == torch.float32
    assert rounded.grad is not None
    assert rounded.grad.dtype == torch.bfloat16
    torch.testing.assert_close(loss, loss_of(rounded.float(), wanted, 0.1).smoothed)


def test_small_shares_of_float16_scores_are_rounded_after_the_loss_scale() -> None:
    vocab, scale = 20_000, 2.0**14
    logits, wanted = torch.zeros(1, 2, vocab), torch.ones(1, 2, dtype=torch.long)
    gradients = []
    for precision in (torch.float16, torch.float64):
        rounded = logits.to(precision).requires_grad_()
        (loss_of(rounded, wanted, 0.1, vocab).smoothed * scale).backward()
        assert rounded.grad is not None
        assert rounded.grad.dtype == precision
        gradients.append(rounded.grad.double())
    torch.testing.assert_close(*gradients, rtol=1e-3, atol=0)


SMOOTHING = Smoothing(0.1, PAD, vocab_size=11)
LABELS = torch.tensor([3, 4, PAD, 5, PAD, 10])


def naive(logits_MV: Tensor, labels_M: Tensor, vocab_size: int) -> Tensor:
    """Both Kullback-Leibler divergences, by PyTorch and its autograd."""
    p, q = (side[labels_M != PAD] for side in logits_MV[:, :vocab_size].log_softmax(-1).chunk(2))
    return sum(
        (functional.kl_div(*both, reduction="sum", log_target=True) for both in ((p, q), (q, p))),
        start=torch.zeros(()),
    )


@pytest.mark.parametrize("width", [11, 16])
def test_value_and_gradient_are_those_of_both_divergences(width: int) -> None:
    """Rows of padding, and those that fill a larger vocabulary, neither count nor learn."""
    logits = noise(12, width)
    logits[:, 11:] = float("-inf")
    ours, theirs = (logits.clone().requires_grad_() for _ in range(2))
    found, expected = symmetric_divergence(ours, LABELS, SMOOTHING), naive(theirs, LABELS, 11)
    torch.testing.assert_close(found, expected)
    (found * 3).backward()
    (expected * 3).backward()
    assert ours.grad is not None
    assert theirs.grad is not None
    torch.testing.assert_close(ours.grad, theirs.grad, atol=1e-6, rtol=1e-4)


def test_many_rows_are_as_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = symmetric_divergence(noise(12, 11), LABELS, SMOOTHING)
    monkeypatch.setattr("model.training.optimisation.objective._DIVERGENCE_ROWS", 4)
    torch.testing.assert_close(symmetric_divergence(noise(12, 11), LABELS, SMOOTHING), whole)


def test_the_objective_is_half_of_the_papers() -> None:
    shape = tiny_config(embedding_dropout=0.3, residual_dropout=0.3)
    network, one = Transformer(shape).train(), batch(3, 1, padding=2)
    smoothing = Smoothing(0.1, shape.pad_id, shape.target_vocab_size)
    torch.manual_seed(4)
    found = r_drop_loss(network, one, smoothing, alpha=5.0)
    torch.manual_seed(4)
    logits = network(torch.cat([one.source_NS] * 2), torch.cat([one.decoder_input_NT] * 2))
    first, second = (label_smoothed_loss(part, one.labels_NT, smoothing) for part in logits.chunk(2))
    disagreement = naive(logits.flatten(0, 1), one.labels_NT.flatten(), shape.target_vocab_size) / 2
    assert disagreement.item() > 0.1
    expected = (first.smoothed + second.smoothed + 5.0 * disagreement) / 2
    torch.testing.assert_close(found.smoothed, expected)
    torch.testing.assert_close(found.cross_entropy, (first.cross_entropy + second.cross_entropy) / 2)


def test_updates_use_it_where_it_is_asked_for(tmp_path: Path) -> None:
    shape = tiny_config(embedding_dropout=0.3, residual_dropout=0.3)
    losses = []
    for section in ({}, {"r_drop": 0.0}, {"r_drop": 500.0}):
        torch.manual_seed(0)
        config = tiny_run(tmp_path, objective=section)
        each = Updater(Transformer(shape), config, torch.device("cpu"))
        losses.append([each.update(step, [batch(4, step, padding=1)]).loss.item() for step in (1, 2)])
    plain, off, on = losses
    assert plain == off
    assert on[0] > plain[0] + 1


@pytest.mark.parametrize("vocab_size", [1_000, 32_000, 2**28])
def test_a_gpu_never_holds_all_logits_in_float32(vocab_size: int) -> None:
    rows = rows_at_once(torch.device("cuda"), vocab_size, 256)
    assert rows == 1 or rows * vocab_size <= 2**27 < (rows + 1) * vocab_size
    assert rows_at_once(torch.device("cpu"), vocab_size, 256) == 256


@pytest.mark.parametrize("rows", [1, 3])
def test_rows_that_are_computed_apart_give_the_same_loss_and_gradient(
    rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("model.network.native_ops.operators_for", lambda *_: None)
    logits, wanted = scores(2, 5), labels(2, 5)
    expected = loss_of(logits, wanted, 0.1).smoothed
    (gradient,) = torch.autograd.grad(expected, logits)
    monkeypatch.setattr("model.training.optimisation.objective._ROWS_AT_ONCE", rows)
    found = loss_of(logits, wanted, 0.1).smoothed
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(*torch.autograd.grad(found, logits), gradient)


class _LargeTensors(TorchDispatchMode):
    """Finds the operators that make tensors of at least so many numbers."""

    def __init__(self, at_least: int) -> None:
        super().__init__()
        self.at_least = at_least
        self.found: list[str] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> object:
        result = func(*args, **(kwargs or {}))
        made = [each.numel() for each in tree_leaves(result) if isinstance(each, Tensor)]
        self.found += [str(func)] * (max([0, *made]) >= self.at_least)
        return result


def _projected(bias: bool, rows: int) -> tuple[Tensor, nn.Linear, Tensor]:
    """States, a projection with two rows more than the vocabulary, and labels."""
    random = torch.Generator().manual_seed(3)
    output = nn.Linear(6, 13, bias=bias)
    for parameter in output.parameters():
        parameter.data = torch.randn(parameter.shape, generator=random)
    labels = torch.randint(0, 11, (1, rows), generator=random)
    return torch.randn(1, rows, 6, generator=random, requires_grad=True), output, labels


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("rows", "at_once"), [(1, 4), (8, 4), (13, 4)])
@pytest.mark.parametrize("precision", [None, torch.bfloat16, torch.float16])
def test_the_loss_without_the_logits_of_the_batch_is_that_of_its_logits(
    precision: torch.dtype | None, rows: int, at_once: int, bias: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objective, "_ROWS_AT_ONCE", at_once)
    states, output, labels = _projected(bias, rows)
    found = []
    for is_chunked in (False, True):
        with torch.autocast("cpu", precision, enabled=precision is not None):
            if is_chunked:
                loss = projected_loss(states, output, labels, SMOOTHING)
            else:
                loss = label_smoothed_loss(output(states)[..., :11], labels, SMOOTHING)
        gradients = torch.autograd.grad(loss.smoothed * 1024 / rows, [states, *output.parameters()])
        found.append((loss.smoothed.detach(), loss.cross_entropy, *gradients))
    tolerance = {"rtol": 1e-5, "atol": 1e-4} if precision is None else {"rtol": 0.03, "atol": 4.0}
    for expected, chunked in zip(*found, strict=True):
        torch.testing.assert_close(chunked, expected, **tolerance)


@pytest.mark.parametrize("is_gpu", [False, True])
def test_a_gpu_never_holds_the_logits_of_a_batch(is_gpu: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    assert step.holds_logits(torch.device("cpu"))
    assert not step.holds_logits(torch.device("cuda"))
    monkeypatch.setattr(step, "holds_logits", lambda _: not is_gpu)
    monkeypatch.setattr(objective, "_ROWS_AT_ONCE", 4)
    shape = tiny_config(embedding_dropout=0.0, residual_dropout=0.0, target_vocab_size=500)
    network, one = Transformer(shape), batch(20, 7)
    with _LargeTensors(at_least=one.labels_NT.numel() * 500) as large:
        step.sequence_loss(network, one, Smoothing.of(shape, 0.1)).smoothed.backward()
    assert bool(large.found) is not is_gpu


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_no_gradient_is_computed_where_none_is_wanted(
    mode: Callable[[], AbstractContextManager[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> Tensor:
        raise AssertionError("a gradient is computed")

    states, output, labels = _projected(bias=True, rows=5)
    expected = label_smoothed_loss(output(states)[..., :11], labels, SMOOTHING).smoothed
    monkeypatch.setattr(objective, "_gradient", fail)
    with mode():
        loss = projected_loss(states, output, labels, SMOOTHING)
    assert not loss.smoothed.requires_grad
    torch.testing.assert_close(loss.smoothed, expected.detach())
    with pytest.raises(AssertionError, match="a gradient is computed"):
        projected_loss(states, output, labels, SMOOTHING)
