"""What a step of greedy search changes in the tensors of its slots, in one kernel.

Shapes: N slots, K hypotheses, C positions.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from model.network.triton_ops.choice import operator


@dataclass(frozen=True, kw_only=True)
class GreedyTensors:
    """Tensors of the slots of a step; all but `positions_N` and `longest_N` are written.

    Attributes:
        positions_N: Tokens of each live slot, that of this step included.
        longest_N: Most tokens of each slot.
        is_live_N: False where a slot is empty or complete.
        has_ended_NK: Whether a hypothesis is complete.
        totals_NK: Log-probability of a hypothesis.
        lengths_NK: Its tokens, EOS included.
        eos_log_probs_NK: Log-probability of EOS; NaN if it was not produced.
        tokens_NK: What the next step reads.
        past_tokens_NKC: Token of every step.
        past_parents_NKC: Row that it continued.
        past_log_probs_NKC: Its log-probability.
        flags_N2: Whether the slot is live after this step, and whether its numbers are broken.
    """

    positions_N: Tensor
    longest_N: Tensor
    is_live_N: Tensor
    has_ended_NK: Tensor
    totals_NK: Tensor
    lengths_NK: Tensor
    eos_log_probs_NK: Tensor
    tokens_NK: Tensor
    past_tokens_NKC: Tensor
    past_parents_NKC: Tensor
    past_log_probs_NKC: Tensor
    flags_N2: Tensor


def record_greedy(tensors: GreedyTensors, chosen_NK: Tensor, log_probs_NK: Tensor, eos_id: int) -> None:
    """Append the likeliest token of each hypothesis, and freeze the slots that are complete.

    Args:
        tensors: Written in place.
        chosen_NK: The tokens.
        log_probs_NK: Their log-probabilities.
        eos_id: EOS, which ends a hypothesis.
    """
    _record(chosen_NK, log_probs_NK, eos_id, *vars(tensors).values())


def record_by_parts(tensors: GreedyTensors, chosen_NK: Tensor, log_probs_NK: Tensor, eos_id: int) -> None:
    """`record_greedy` in PyTorch."""
    at, (slots, width) = tensors, chosen_NK.shape
    is_live_N1, is_eos_NK = at.is_live_N[:, None].clone(), chosen_NK == eos_id
    is_open_NK = is_live_N1 & ~at.has_ended_NK
    at.totals_NK.add_(torch.where(is_open_NK, log_probs_NK, 0.0))
    at.lengths_NK.add_(is_open_NK)
    at.eos_log_probs_NK.copy_(torch.where(is_open_NK & is_eos_NK, log_probs_NK, at.eos_log_probs_NK))
    at.has_ended_NK.logical_or_(is_open_NK & (is_eos_NK | at.totals_NK.isneginf()))
    at.tokens_NK.copy_(chosen_NK)
    place_NK1 = (at.positions_N - 1).clamp_min(0)[:, None, None].expand(-1, width, 1)
    parents_NK = torch.arange(width, device=chosen_NK.device).expand(slots, -1)
    tables = at.past_tokens_NKC, at.past_parents_NKC, at.past_log_probs_NKC
    for table_NKC, new_NK in zip(tables, (chosen_NK, parents_NK, log_probs_NK), strict=True):
        kept_NK1 = table_NKC.gather(2, place_NK1)
        table_NKC.scatter_(2, place_NK1, torch.where(is_live_N1[..., None], new_NK[..., None], kept_NK1))
    is_broken_N = log_probs_NK.isnan().any(1)
    is_complete_N = at.has_ended_NK.all(1) | is_broken_N | (at.positions_N >= at.longest_N)
    at.is_live_N.logical_and_(~is_complete_N)
    at.flags_N2.copy_(torch.stack([at.is_live_N, is_broken_N], 1))


@operator(
    "record_greedy(Tensor chosen, Tensor log_probs, int eos_id, Tensor positions, Tensor longest, "
    "Tensor(a!) is_live, Tensor(b!) has_ended, Tensor(c!) totals, Tensor(d!) lengths, "
    "Tensor(e!) eos_log_probs, Tensor(f!) tokens, Tensor(g!) past_tokens, Tensor(h!) past_parents, "
    "Tensor(i!) past_log_probs, Tensor(j!) flags) -> ()"
)
def _record(chosen_NK: Tensor, log_probs_NK: Tensor, eos_id: int, *tensors: Tensor) -> None:
    from triton import next_power_of_2

    from model.network.triton_ops import kernels

    at = GreedyTensors(**dict(zip(GreedyTensors.__dataclass_fields__, tensors, strict=True)))
    slots, width = chosen_NK.shape
    kernels.record_greedy[(slots,)](
        chosen_NK,
        log_probs_NK,
        at.is_live_N,
        at.positions_N,
        at.longest_N,
        at.has_ended_NK,
        at.totals_NK,
        at.lengths_NK,
        at.eos_log_probs_NK,
        at.tokens_NK,
        at.past_tokens_NKC,
        at.past_parents_NKC,
        at.past_log_probs_NKC,
        at.flags_N2,
        at.longest_N.stride(0),
        at.past_tokens_NKC.shape[2],
        eos_id,
        WIDTH=width,
        BLOCK_K=next_power_of_2(width),
    )
