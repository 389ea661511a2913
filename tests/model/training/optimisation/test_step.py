from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from model.network.transformer import Transformer
from model.training.data.batches import Batch
from model.training.optimisation.objective import Smoothing
from model.training.optimisation.step import Updater, sequence_loss
from tests.model.tiny_networks import ids, tiny_config
from tests.model.training.tiny_runs import tiny_run

CPU = torch.device("cpu")
IDS = ("source_NS", "decoder_input_NT", "labels_NT")
SHAPE = tiny_config(embedding_dropout=0.0, residual_dropout=0.0)


def batch(rows: int, seed: int, length: int = 6, padding: int = 0) -> Batch:
    """Random rows; the last ends `padding` labels early."""
    labels = ids(rows, length, seed=seed)
    labels[-1, length - padding :] = SHAPE.pad_id
    start = torch.full((rows, 1), SHAPE.decoder_start_id)
    return Batch(
        source_NS=ids(rows, 4, seed=seed + 100),
        decoder_input_NT=torch.cat([start, labels[:, :-1]], 1),
        labels_NT=labels,
        num_pairs=rows,
        num_source_tokens=rows * 4,
        num_target_tokens=rows * length - padding,
        epoch=0,
        index=0,
    )


def joined(parts: list[Batch]) -> Batch:
    return Batch(
        **{name: torch.cat([getattr(p, name) for p in parts]) for name in IDS},
        num_pairs=sum(p.num_pairs for p in parts),
        num_source_tokens=sum(p.num_source_tokens for p in parts),
        num_target_tokens=sum(p.num_target_tokens for p in parts),
        epoch=0,
        index=0,
    )


def updater(folder: Path, **sections: dict[str, Any]) -> Updater:
    torch.manual_seed(0)
    return Updater(Transformer(SHAPE), tiny_run(folder, **sections), CPU)


def test_four_batches_are_one_four_times_as_large(tmp_path: Path) -> None:
    parts = [batch(2, seed, padding=seed) for seed in range(4)]
    separately, together = updater(tmp_path), updater(tmp_path)
    accumulated = separately.update(1, parts)
    single = together.update(1, [joined(parts)])
    torch.testing.assert_close(accumulated.loss, single.loss)
    torch.testing.assert_close(accumulated.gradient_norm, single.gradient_norm)
    gradients = zip(separately.network.parameters(), together.network.parameters(), strict=True)
    for ours, theirs in gradients:
        torch.testing.assert_close(ours.grad, theirs.grad, atol=1e-7, rtol=1e-4)
    assert accumulated.num_tokens == single.num_tokens == 4 * (2 * 4 + 2 * 6) - 6


@pytest.mark.parametrize("clip_norm", [0.01, 0.0])
def test_the_gradient_is_clipped_to_its_longest(tmp_path: Path, clip_norm: float) -> None:
    clipping = updater(tmp_path, optimisation={"clip_norm": clip_norm})
    measured = float(clipping.update(1, [batch(4, 1)]).gradient_norm)
    gradients = [weight.grad for weight in clipping.network.parameters() if weight.grad is not None]
    assert measured > 0.01
    assert torch.nn.utils.get_total_norm(gradients) == pytest.approx(clip_norm or measured, rel=1e-3)


def test_the_schedule_sets_every_groups_rate(tmp_path: Path) -> None:
    scheduled = updater(
        tmp_path, optimisation={"learning_rate": 0.01}, schedule={"form": "constant", "warmup_steps": 10}
    )
    assert scheduled.update(3, [batch(2, 1)]).learning_rate == pytest.approx(0.003)
    assert [group["lr"] for group in scheduled.optimiser.param_groups] == pytest.approx([0.003, 0.003])


def test_bfloat16_is_close_to_float32(tmp_path: Path) -> None:
    exact, rough = updater(tmp_path), updater(tmp_path, run={"precision": "bfloat16"})
    ours, theirs = rough.update(1, [batch(4, 1)]), exact.update(1, [batch(4, 1)])
    assert float(ours.loss) == pytest.approx(float(theirs.loss), rel=0.02)
    assert float(ours.loss) != float(theirs.loss)
    assert all(weight.dtype == torch.float32 for weight in rough.network.parameters())


def test_teacher_forcing_scores_each_label_given_those_before(tmp_path: Path) -> None:
    network = updater(tmp_path).network.eval()
    one = batch(1, 3)
    logits = network(one.source_NS, one.decoder_input_NT)[0]
    expected = -logits.log_softmax(-1)[range(6), one.labels_NT[0]].sum()
    torch.testing.assert_close(sequence_loss(network, one, Smoothing.of(SHAPE, 0.0)).smoothed, expected)


def test_further_padding_and_empty_rows_change_no_loss_and_no_gradient(tmp_path: Path) -> None:
    exact, wide = updater(tmp_path), updater(tmp_path)
    one = batch(9, 5, padding=2)
    padded = replace(
        one, **{name: functional.pad(getattr(one, name), (0, 3, 0, 2), value=SHAPE.pad_id) for name in IDS}
    )
    found, expected = (each.update(1, [given]) for each, given in ((wide, padded), (exact, one)))
    torch.testing.assert_close(found.loss, expected.loss)
    for one_weight, other in zip(wide.network.parameters(), exact.network.parameters(), strict=True):
        torch.testing.assert_close(one_weight.grad, other.grad)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda saved: saved.pop("weights.source_embedding.tokens.weight"), "source_embedding.tokens"),
        (lambda saved: saved.update({"weights.output.bias": torch.zeros(3)}), "output.bias"),
    ],
)
def test_a_state_of_another_network_is_refused(
    tmp_path: Path, change: Callable[[dict[str, Tensor]], object], name: str
) -> None:
    one = updater(tmp_path)
    saved = one.state_tensors()
    change(saved)
    with pytest.raises(KeyError, match=name):
        one.load_state(saved, one.state_values())


def test_a_first_update_without_a_batch_of_ours_has_a_loss_scale(tmp_path: Path) -> None:
    here = updater(tmp_path)
    here._scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    elsewhere = batch(2, 1).to("meta")
    here.update(1, [elsewhere])
    assert here._scaler.get_scale() == 4.0
    here._scaler.load_state_dict({**here._scaler.state_dict(), "scale": 8.0})
    here.update(2, [elsewhere])
    assert here._scaler.get_scale() == 8.0
