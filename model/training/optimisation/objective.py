"""Label-smoothed cross entropy, summed over the real tokens of a batch, and R-Drop.

R-Drop (Liang et al. 2021, https://arxiv.org/abs/2106.14448) adds to the losses of both passes, at every
target position,

    α · ½ · [KL(P₁ ‖ P₂) + KL(P₂ ‖ P₁)].

This module computes half of that objective, so that its losses compare with those of a single pass:

    ½ · [loss(P₁) + loss(P₂)] + α / 4 · [KL(P₁ ‖ P₂) + KL(P₂ ‖ P₁)].

Shapes: N sentences, T target positions, M rows (N × T), D width of states, V vocabulary.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx
from torch.nn import functional

from model.config import TransformerConfig
from model.network.native_ops import fused_smoothed_loss
from model.training.data.batches import Batch

_ROWS_AT_ONCE = 256
"""Rows turned into float32 at a time on a CPU: 256 × 8,000 × 4 bytes stay in the cache."""

_DIVERGENCE_ROWS = 128
"""Rows of each pass turned into float32 at a time on a CPU, which keeps their results in the cache."""

_NUMBERS_ON_A_GPU = 2**27
"""Logits turned into float32 at a time on a GPU: half a gigabyte; those of a batch may have several."""


@dataclass(frozen=True)
class SummedLoss:
    """The loss of a batch before it is divided by its number of tokens.

    Attributes:
        smoothed: Scalar with gradient, in nats.
        cross_entropy: Scalar without gradient, −log P of the reference tokens, in nats.
    """

    smoothed: Tensor
    cross_entropy: Tensor


@dataclass(frozen=True)
class Smoothing:
    """The target distribution q.

    Attributes:
        share: ε, the probability that is spread over the other tokens.
        pad_id: Has probability 0; a label with this id does not count.
        vocab_size: V, without the rows that pad the vocabulary.
    """

    share: float
    pad_id: int
    vocab_size: int

    @classmethod
    def of(cls, config: TransformerConfig, share: float) -> "Smoothing":
        """The distribution for a network's targets."""
        return cls(share, config.pad_id, config.target_vocab_size)

    @property
    def other(self) -> float:
        """ε / (V − 2): probability of each token that is neither the reference nor padding."""
        return self.share / max(self.vocab_size - 2, 1)


def label_smoothed_loss(logits_NTV: Tensor, labels_NT: Tensor, smoothing: Smoothing) -> SummedLoss:
    """−Σ_v q(v) log p(v), summed over all labels that are not padding.

    q gives 1 − ε to the reference token, ε / (V − 2) to every other token but padding, and nothing
    to padding, as in the Annotated Transformer. It differs from the KL divergence to q by a constant.

    Args:
        logits_NTV: Scores; ids from `vocab_size` on may be −inf.
        labels_NT: Reference tokens, `pad_id` at padding.
        smoothing: The distribution q.
    """
    logits_MV, labels_M = logits_NTV.reshape(-1, logits_NTV.shape[-1]), labels_NT.flatten()
    sums = fused_smoothed_loss(
        logits_MV[:, : smoothing.vocab_size],
        labels_M,
        smoothing=smoothing.share,
        other=smoothing.other,
        pad_id=smoothing.pad_id,
    )
    if sums is None:
        sums = _smoothed_sums(logits_MV, labels_M, smoothing)
    return SummedLoss(*sums)


def projected_loss(
    states_NTD: Tensor, output: nn.Linear, labels_NT: Tensor, smoothing: Smoothing
) -> SummedLoss:
    """`label_smoothed_loss` of the logits `output(states)`, a few rows of which are in memory at a time.

    The logits of a batch, and their gradient, are the largest tensors of a training step. Here a chunk of
    logits becomes its part of the gradients of states and weights before the next chunk is computed, in
    products of the type of autocast.

    Args:
        states_NTD: Decoder states.
        output: Projects them to logits; rows from `vocab_size` on do not count.
        labels_NT: Reference tokens, `pad_id` at padding.
        smoothing: The distribution q.
    """
    weight_VD, bias_V, size = output.weight, output.bias, smoothing.vocab_size
    states_MD, labels_M, device = states_NTD.flatten(0, -2), labels_NT.flatten(), states_NTD.device
    inputs = [each for each in (states_MD, weight_VD, bias_V) if each is not None]
    has_gradient = torch.is_grad_enabled() and any(each.requires_grad for each in inputs)
    is_cast = torch.is_autocast_enabled(device.type)
    precision = torch.get_autocast_dtype(device.type) if is_cast else weight_VD.dtype
    with torch.no_grad(), torch.autocast(device.type, enabled=False):
        states, weight = states_MD.to(precision), weight_VD[:size].to(precision)
        bias = None if bias_V is None else bias_V[:size].to(precision)
        gradients = [kept_gradient(states), *map(torch.zeros_like, inputs[1:])] if has_gradient else []
        sums = torch.zeros(2, device=device)
        step = rows_at_once(device, size, _ROWS_AT_ONCE)
        for start in range(0, len(states), step):
            rows = slice(start, start + step)
            logs_MV = functional.linear(states[rows], weight, bias).float().log_softmax(-1)
            sums += _losses(logs_MV, labels_M[rows], smoothing)
            if gradients:
                kept = gradients[0].dtype
                gradient_MV = _gradient(logs_MV, labels_M[rows], smoothing).to(kept)
                gradients[0][rows] = gradient_MV @ weight.to(kept)
                gradients[1][:size] += gradient_MV.T @ states[rows].to(kept)
                if bias is not None:
                    gradients[2][:size] += gradient_MV.sum(0)
        smoothed, cross_entropy = sums.unbind()
    return SummedLoss(_with_gradients(smoothed, inputs, gradients), cross_entropy)


def _smoothed_sums(logits_MV: Tensor, labels_M: Tensor, smoothing: Smoothing) -> tuple[Tensor, Tensor]:
    """Smoothed loss with gradient, softmax(z) − q, and cross entropy; computed a few rows at a time."""
    has_gradient = logits_MV.requires_grad and torch.is_grad_enabled()
    with torch.no_grad():
        gradient_MV = kept_gradient(logits_MV) if has_gradient else None
        sums = torch.zeros(2, device=logits_MV.device)
        step = rows_at_once(logits_MV.device, smoothing.vocab_size, _ROWS_AT_ONCE)
        for start in range(0, len(logits_MV), step):
            rows = slice(start, start + step)
            logs_MV = logits_MV[rows, : smoothing.vocab_size].float().log_softmax(-1)
            sums += _losses(logs_MV, labels_M[rows], smoothing)
            if gradient_MV is not None:
                gradient_MV[rows, : smoothing.vocab_size] = _gradient(logs_MV, labels_M[rows], smoothing)
        smoothed, cross_entropy = sums.unbind()
    gradients = [] if gradient_MV is None else [gradient_MV]
    return _with_gradients(smoothed, [logits_MV], gradients), cross_entropy


def _with_gradients(value: Tensor, inputs: Sequence[Tensor], gradients: Sequence[Tensor]) -> Tensor:
    """The value, whose gradient with respect to each input was computed together with it, or for none.

    That saves a second pass over the largest tensor of a training step, and its float32 copy.
    """
    if not gradients:
        return value
    return cast(Callable[..., Tensor], _WithGradients.apply)(value, gradients, *inputs)


class _Context(FunctionCtx):
    """What forward saves for backward."""

    saved_tensors: tuple[Tensor, ...]
    precisions: list[torch.dtype]


class _WithGradients(torch.autograd.Function):
    @staticmethod
    def forward(ctx: _Context, value: Tensor, gradients: Sequence[Tensor], *inputs: Tensor) -> Tensor:
        ctx.precisions = [each.dtype for each in inputs]
        ctx.save_for_backward(*gradients)
        return value.clone()

    @staticmethod
    def backward(ctx: _Context, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        scaled = (gradient * upstream[0] for gradient in ctx.saved_tensors)
        return None, None, *(g.to(precision) for g, precision in zip(scaled, ctx.precisions, strict=True))


def rows_at_once(device: torch.device, vocab_size: int, on_a_cpu: int) -> int:
    """Rows of logits that are turned into float32 at a time."""
    return on_a_cpu if device.type == "cpu" else max(1, _NUMBERS_ON_A_GPU // vocab_size)


def kept_gradient(like: Tensor) -> Tensor:
    """Zeros for a gradient that is not multiplied by the loss scale yet.

    It is float32 for float16 numbers, because ε / V without the loss scale is near the smallest float16.
    """
    precision = torch.float32 if like.dtype == torch.float16 else like.dtype
    return torch.zeros_like(like, dtype=precision)


def _losses(logs_MV: Tensor, labels_M: Tensor, smoothing: Smoothing) -> Tensor:
    """Smoothed loss and cross entropy, summed over rows, shape (2,)."""
    reference_M = logs_MV.gather(-1, labels_M[:, None])[:, 0]
    others_M = logs_MV.sum(-1) - reference_M - logs_MV[:, smoothing.pad_id]
    smoothed_M = (1 - smoothing.share) * reference_M + smoothing.other * others_M
    return -(torch.stack([smoothed_M, reference_M]) * (labels_M != smoothing.pad_id)).sum(-1)


def _gradient(logs_MV: Tensor, labels_M: Tensor, smoothing: Smoothing) -> Tensor:
    """softmax(z) − q, zero in rows of padding; overwrites log softmax(z)."""
    gradient_MV = logs_MV.exp_().sub_(smoothing.other)
    gradient_MV[:, smoothing.pad_id] += smoothing.other
    correction_M1 = gradient_MV.new_full((len(labels_M), 1), smoothing.other - (1 - smoothing.share))
    gradient_MV.scatter_add_(-1, labels_M[:, None], correction_M1)
    return gradient_MV.mul_((labels_M != smoothing.pad_id)[:, None])


def r_drop_loss(
    network: Callable[[Tensor, Tensor], Tensor], batch: Batch, smoothing: Smoothing, alpha: float
) -> SummedLoss:
    """The R-Drop objective of a batch, summed over all labels that are not padding.

    Both passes run as one, on the batch concatenated with itself.

    Args:
        network: Computes logits (N, T, V) of a source and a decoder input, with dropout.
        batch: Sentence pairs.
        smoothing: The target distribution of each pass.
        alpha: α, weight of the divergence; about 5 for translation in the paper.
    """
    logits_NTV = network(torch.cat([batch.source_NS] * 2), torch.cat([batch.decoder_input_NT] * 2))
    both = label_smoothed_loss(logits_NTV, torch.cat([batch.labels_NT] * 2), smoothing)
    disagreement = symmetric_divergence(logits_NTV.flatten(0, -2), batch.labels_NT.flatten(), smoothing)
    return SummedLoss(both.smoothed / 2 + alpha / 4 * disagreement, both.cross_entropy / 2)


def symmetric_divergence(logits_MV: Tensor, labels_M: Tensor, smoothing: Smoothing) -> Tensor:
    """KL(P ‖ Q) + KL(Q ‖ P) = Σ_v (p − q)(log p − log q), in nats, summed over rows that are not padding.

    Args:
        logits_MV: Scores of the first pass (P), then as many rows of the second (Q); ids from `vocab_size` on
            do not count.
        labels_M: Labels of one pass; rows with `pad_id` do not count.
        smoothing: Names `pad_id` and `vocab_size`.
    """
    counts_M, vocab_size = labels_M != smoothing.pad_id, smoothing.vocab_size
    with torch.no_grad():
        gradient_MV = kept_gradient(logits_MV)
        total = torch.zeros((), device=logits_MV.device)
        size = len(counts_M)
        step = rows_at_once(logits_MV.device, vocab_size, _DIVERGENCE_ROWS)
        for start in range(0, size, step):
            end = min(start + step, size)
            places = [(slice(start + pass_, end + pass_), slice(vocab_size)) for pass_ in (0, size)]
            logs_p, logs_q = (logits_MV[place].float().log_softmax(-1) for place in places)
            value_M1, *gradients_MV = _divergence(logs_p, logs_q)
            counts_M1 = counts_M[start:end, None]
            total += (value_M1 * counts_M1).sum()
            for place, part_MV in zip(places, gradients_MV, strict=True):
                gradient_MV[place] = part_MV * counts_M1
    return _with_gradients(total, [logits_MV], [gradient_MV])


def _divergence(logs_p_MV: Tensor, logs_q_MV: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The divergence of each row (M, 1), and its gradients with respect to the scores of P and of Q.

    With d = log p − log q, the gradient with respect to the scores of P is p · (d − Σ p d) + p − q.
    """
    p_MV, q_MV = logs_p_MV.exp(), logs_q_MV.exp()
    d_MV = logs_p_MV - logs_q_MV
    p_to_q_M1, q_to_p_M1 = (p_MV * d_MV).sum(-1, keepdim=True), -(q_MV * d_MV).sum(-1, keepdim=True)
    gradient_p_MV = p_MV * (d_MV - p_to_q_M1) + p_MV - q_MV
    gradient_q_MV = q_MV * (-d_MV - q_to_p_M1) + q_MV - p_MV
    return p_to_q_M1 + q_to_p_M1, gradient_p_MV, gradient_q_MV
