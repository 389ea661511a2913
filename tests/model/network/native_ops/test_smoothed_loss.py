"""The native loss gives what its reference in plain PyTorch gives."""

import pytest
import torch
from torch import Tensor

from model.native.operators import Operators
from model.network.native_ops import loading
from model.training.optimisation.objective import Smoothing, SummedLoss, label_smoothed_loss

PAD = 3


def inputs(vocabulary: int, dtype: torch.dtype, rows: int = 70) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(vocabulary)
    logits = 4 * torch.randn(rows, vocabulary, generator=generator)
    labels = torch.randint(vocabulary, (rows,), generator=generator)
    labels[::5] = PAD
    return logits.to(dtype).requires_grad_(), labels


def both(
    logits: Tensor, labels: Tensor, smoothing: Smoothing, monkeypatch: pytest.MonkeyPatch
) -> tuple[tuple[SummedLoss, Tensor], tuple[SummedLoss, Tensor]]:
    """Loss and gradient, natively and by the reference."""

    def computed() -> tuple[SummedLoss, Tensor]:
        loss = label_smoothed_loss(logits, labels, smoothing)
        return loss, torch.autograd.grad(loss.smoothed / 7, logits)[0]

    native = computed()
    monkeypatch.setattr(loading, "installed_operators", lambda: None)
    return native, computed()


@pytest.mark.parametrize("share", [0.0, 0.1])
@pytest.mark.parametrize("vocabulary", [11, 64, 1003])
def test_it_is_the_reference_in_float32(
    operators: Operators, vocabulary: int, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    logits, labels = inputs(vocabulary, torch.float32)
    smoothing = Smoothing(share, PAD, vocabulary)
    (native, slope), (reference, expected) = both(logits, labels, smoothing, monkeypatch)
    torch.testing.assert_close(native.smoothed, reference.smoothed)
    torch.testing.assert_close(native.cross_entropy, reference.cross_entropy)
    torch.testing.assert_close(slope, expected, atol=1e-7, rtol=1e-5)


def test_it_is_the_reference_in_bfloat16(operators: Operators, monkeypatch: pytest.MonkeyPatch) -> None:
    logits, labels = inputs(203, torch.bfloat16)
    (native, slope), (reference, expected) = both(logits, labels, Smoothing(0.1, PAD, 203), monkeypatch)
    torch.testing.assert_close(native.smoothed, reference.smoothed)
    assert slope.dtype == torch.bfloat16
    # The reference rounds twice, the operator once.
    torch.testing.assert_close(slope, expected, atol=1e-9, rtol=2**-7)


def test_rows_that_fill_up_the_vocabulary_are_left_out(
    operators: Operators, monkeypatch: pytest.MonkeyPatch
) -> None:
    logits, labels = inputs(32, torch.float32)
    (native, slope), (reference, expected) = both(
        logits, labels.clamp(max=28), Smoothing(0.1, PAD, 29), monkeypatch
    )
    torch.testing.assert_close(native.smoothed, reference.smoothed)
    torch.testing.assert_close(slope, expected)
    assert not slope[:, 29:].any()


def test_threads_change_nothing(operators: Operators) -> None:
    logits, labels = inputs(101, torch.bfloat16, rows=333)
    losses = []
    before = torch.get_num_threads()
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        losses.append(label_smoothed_loss(logits, labels, Smoothing(0.1, PAD, 101)).smoothed)
    torch.set_num_threads(before)
    assert losses[0] == losses[1] == losses[2]


def test_the_gradient_reads_what_was_saved_wherever_it_lies(operators: Operators) -> None:
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


def test_a_label_outside_of_the_vocabulary_is_refused(operators: Operators) -> None:
    logits, labels = inputs(11, torch.float32)
    labels[4] = 11
    with pytest.raises(IndexError, match="11"):
        label_smoothed_loss(logits, labels, Smoothing(0.1, PAD, 11))
