from pathlib import Path

import pytest
import torch
from torch import Tensor

from model.errors import ConfigError
from model.network.transformer import Transformer
from model.training.config.optimisation import ObjectiveConfig
from model.training.objective import Smoothing, label_smoothed_loss, r_drop_loss, symmetric_divergence
from model.training.step import Updater
from tests.model.tiny_networks import noise, tiny_config
from tests.model.training.test_step import batch
from tests.model.training.tiny_runs import tiny_run

PAD = 0
SMOOTHING = Smoothing(0.1, PAD, vocab_size=11)
LABELS = torch.tensor([3, 4, PAD, 5, PAD, 10])


def naive(logits_MV: Tensor, labels_M: Tensor, vocab_size: int) -> Tensor:
    """Both Kullback-Leibler divergences, by PyTorch and its autograd."""
    p, q = (
        logits_MV[:, :vocab_size].log_softmax(-1)[: len(labels_M)],
        logits_MV[:, :vocab_size].log_softmax(-1),
    )
    q = q[len(labels_M) :]
    real = labels_M != PAD
    return torch.nn.functional.kl_div(
        q[real], p[real], reduction="sum", log_target=True
    ) + torch.nn.functional.kl_div(p[real], q[real], reduction="sum", log_target=True)


def test_value_and_gradient_are_those_of_both_divergences() -> None:
    ours, theirs = (noise(12, 11).requires_grad_() for _ in range(2))
    found, expected = symmetric_divergence(ours, LABELS, SMOOTHING), naive(theirs, LABELS, 11)
    torch.testing.assert_close(found, expected)
    (found * 3).backward()
    (expected * 3).backward()
    assert ours.grad is not None
    assert theirs.grad is not None
    torch.testing.assert_close(ours.grad, theirs.grad, atol=1e-6, rtol=1e-4)


def test_many_rows_are_as_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = symmetric_divergence(noise(12, 11), LABELS, SMOOTHING)
    monkeypatch.setattr("model.training.objective._DIVERGENCE_ROWS", 4)
    torch.testing.assert_close(symmetric_divergence(noise(12, 11), LABELS, SMOOTHING), whole)


def test_padding_neither_counts_nor_learns() -> None:
    logits = noise(12, 11).requires_grad_()
    symmetric_divergence(logits, LABELS, SMOOTHING).backward()
    assert logits.grad is not None
    padded = torch.cat([LABELS, LABELS]) == PAD
    assert not logits.grad[padded].any()
    assert logits.grad[~padded].any(-1).all()
    assert not symmetric_divergence(noise(12, 11), torch.full((6,), PAD), SMOOTHING).any()


def test_rows_that_fill_the_vocabulary_do_not_count() -> None:
    wider = torch.cat([noise(12, 11), torch.full((12, 5), float("-inf"))], 1).requires_grad_()
    found = symmetric_divergence(wider, LABELS, SMOOTHING)
    torch.testing.assert_close(found, symmetric_divergence(noise(12, 11), LABELS, SMOOTHING))
    found.backward()
    assert wider.grad is not None
    assert not wider.grad[:, 11:].any()


def test_equal_passes_do_not_disagree() -> None:
    assert float(symmetric_divergence(torch.cat([noise(6, 11)] * 2), LABELS, SMOOTHING)) == pytest.approx(0)


def test_without_dropout_it_is_the_loss_of_one_pass() -> None:
    shape = tiny_config(embedding_dropout=0.0, residual_dropout=0.0)
    network, one = Transformer(shape).train(), batch(3, 1, padding=2)
    smoothing = Smoothing(0.1, shape.pad_id, shape.target_vocab_size)
    found = r_drop_loss(network, one, smoothing, alpha=5.0)
    expected = label_smoothed_loss(network(one.source_NS, one.decoder_input_NT), one.labels_NT, smoothing)
    torch.testing.assert_close(found.smoothed, expected.smoothed)
    torch.testing.assert_close(found.cross_entropy, expected.cross_entropy)


def test_the_objective_is_half_of_the_papers() -> None:
    shape = tiny_config(embedding_dropout=0.3, residual_dropout=0.3)
    network, one = Transformer(shape).train(), batch(3, 1, padding=2)
    smoothing = Smoothing(0.1, shape.pad_id, shape.target_vocab_size)
    torch.manual_seed(4)
    found = r_drop_loss(network, one, smoothing, alpha=5.0).smoothed
    torch.manual_seed(4)
    logits = network(torch.cat([one.source_NS] * 2), torch.cat([one.decoder_input_NT] * 2))
    first, second = (label_smoothed_loss(part, one.labels_NT, smoothing).smoothed for part in logits.chunk(2))
    disagreement = naive(logits.flatten(0, 1), one.labels_NT.flatten(), shape.target_vocab_size) / 2
    assert disagreement.item() > 0.1
    torch.testing.assert_close(found, (first + second + 5.0 * disagreement) / 2)


def test_updates_use_it_where_it_is_asked_for(tmp_path: Path) -> None:
    shape = tiny_config(embedding_dropout=0.3, residual_dropout=0.3)
    losses = []
    for objective in ({}, {"r_drop": 0.0}, {"r_drop": 500.0}):
        torch.manual_seed(0)
        config = tiny_run(tmp_path, objective=objective)
        each = Updater(Transformer(shape), shape, config, torch.device("cpu"))
        losses.append([each.update(step, [batch(4, step, padding=1)]).loss.item() for step in (1, 2)])
    plain, off, on = losses
    assert plain == off
    assert on[0] > plain[0] + 1


def test_a_negative_strength_is_refused() -> None:
    with pytest.raises(ConfigError, match="`r_drop` must be a number at least 0"):
        ObjectiveConfig(r_drop=-1.0)
