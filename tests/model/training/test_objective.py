import torch
from torch import Tensor
from torch.nn import functional

from model.training.objective import Smoothing, SummedLoss, label_smoothed_loss

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


def test_no_smoothing_is_cross_entropy_in_value_and_gradient() -> None:
    ours, theirs, wanted = scores(3, 5), scores(3, 5), labels(3, 5)
    loss = loss_of(ours, wanted, 0.0)
    expected = functional.cross_entropy(
        theirs.flatten(0, 1), wanted.flatten(), ignore_index=PAD, reduction="sum"
    )
    loss.smoothed.backward()
    expected.backward()
    torch.testing.assert_close(loss.smoothed, expected)
    torch.testing.assert_close(loss.cross_entropy, expected.detach())
    torch.testing.assert_close(ours.grad, theirs.grad)


def test_smoothing_is_the_written_out_sum_in_value_and_gradient() -> None:
    ours, theirs, wanted = scores(3, 5), scores(3, 5), labels(3, 5)
    loss = loss_of(ours, wanted, 0.1)
    expected = reference(theirs, wanted, 0.1)
    (2.5 * loss.smoothed).backward()
    (2.5 * expected).backward()
    torch.testing.assert_close(loss.smoothed, expected)
    torch.testing.assert_close(ours.grad, theirs.grad)


def test_cross_entropy_is_reported_without_smoothing_and_without_gradient() -> None:
    logits, wanted = scores(3, 5), labels(3, 5)
    loss = loss_of(logits, wanted, 0.1)
    torch.testing.assert_close(loss.cross_entropy, loss_of(logits, wanted, 0.0).smoothed.detach())
    assert not loss.cross_entropy.requires_grad


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


def test_many_rows_are_the_sum_of_few() -> None:
    logits, wanted = scores(30, 20), torch.randint(0, VOCAB, (30, 20))
    whole = loss_of(logits, wanted, 0.1).smoothed
    parts = [loss_of(logits[i : i + 10], wanted[i : i + 10], 0.1).smoothed for i in range(0, 30, 10)]
    torch.testing.assert_close(whole, torch.stack(parts).sum())


def test_bfloat16_scores_are_summed_in_float32() -> None:
    logits, wanted = scores(30, 20), torch.randint(1, VOCAB, (30, 20))
    rounded = logits.detach().bfloat16().requires_grad_()
    loss = loss_of(rounded, wanted, 0.1).smoothed
    loss.backward()
    assert loss.dtype == torch.float32
    assert rounded.grad is not None
    assert rounded.grad.dtype == torch.bfloat16
    torch.testing.assert_close(loss, loss_of(rounded.float(), wanted, 0.1).smoothed)


def test_a_batch_of_padding_alone_costs_nothing() -> None:
    loss = loss_of(scores(2, 3), torch.full((2, 3), PAD), 0.1)
    assert loss.smoothed == 0


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
