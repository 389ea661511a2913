"""The likeliest tokens of decoder states, without writing the logits, and what choosing them changes.

Shapes: R rows (slots × hypotheses), N slots, K hypotheses, C positions, M model dim, V vocabulary, B blocks
of the vocabulary, T ranks (likeliest tokens), X columns of the pool.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from model.network.triton_ops import operator

_MOST_ROWS, _BLOCK_V, _BLOCK_M = 64, 128, 32


@dataclass(frozen=True, kw_only=True)
class Forbidden:
    """Tokens that must not be produced; they still count in the sum of the probabilities.

    Attributes:
        is_never_V: Tokens that are never produced.
        eos_id: EOS, which is too early before the shortest length.
        shortest_N: Fewest tokens of a translation.
        positions_N: Tokens before this step.
    """

    is_never_V: Tensor
    eos_id: int
    shortest_N: Tensor
    positions_N: Tensor

    def scores(self, logits_RV: Tensor) -> Tensor:
        """Log-probabilities, (R, V), −inf where forbidden, in PyTorch."""
        early_N = self.shortest_N > self.positions_N + 1
        is_early_R1 = early_N.repeat_interleave(len(logits_RV) // len(early_N))[:, None]
        is_eos_V = torch.arange(logits_RV.shape[1], device=logits_RV.device) == self.eos_id
        is_forbidden_RV = self.is_never_V | (is_early_R1 & is_eos_V)
        return logits_RV.log_softmax(1, dtype=torch.float32).masked_fill(is_forbidden_RV, float("-inf"))


def likeliest_tokens(
    states_RM: Tensor, weight_VM: Tensor, bias_V: Tensor | None, scale: float, forbidden: Forbidden, top: int
) -> tuple[Tensor, Tensor]:
    """Log-probabilities and ids of the likeliest tokens of each row, (R, T) each; the first of equal ones.

    Args:
        states_RM: Decoder states.
        weight_VM: Projects them to logits; may have more rows than `forbidden` has tokens.
        bias_V: Added to the logits; None for nothing.
        scale: Factor of the states.
        forbidden: What must not be produced.
        top: How many tokens.
    """
    log_probs_RT = states_RM.new_empty(len(states_RM), top, dtype=torch.float32)
    arguments = forbidden.is_never_V, forbidden.eos_id, forbidden.shortest_N, forbidden.positions_N
    return log_probs_RT, _likeliest(states_RM, weight_VM, bias_V, scale, *arguments, log_probs_RT)


@operator(
    "likeliest_tokens(Tensor states, Tensor weight, Tensor? bias, float scale, Tensor is_never, int eos_id, "
    "Tensor shortest, Tensor positions, Tensor(a!) log_probs) -> Tensor"
)
def _likeliest(
    states_RM: Tensor,
    weight_VM: Tensor,
    bias_V: Tensor | None,
    scale: float,
    is_never_V: Tensor,
    eos_id: int,
    shortest_N: Tensor,
    positions_N: Tensor,
    log_probs_RT: Tensor,
) -> Tensor:
    from triton import cdiv, knobs, next_power_of_2

    from model.network.triton_ops import kernels

    (rows, dim), top, vocabulary = states_RM.shape, log_probs_RT.shape[1], len(is_never_V)
    blocks = cdiv(vocabulary, _BLOCK_V)
    block_rows = min(max(next_power_of_2(rows), 16), _MOST_ROWS)
    highest_RB, totals_RB = torch.empty(2, rows, blocks, device=states_RM.device)
    scores_RX = torch.empty(rows, blocks * top, device=states_RM.device)
    tokens_RX = torch.empty(rows, blocks * top, dtype=torch.int32, device=states_RM.device)
    kernels.score_vocabulary[(cdiv(rows, block_rows), blocks)](
        states_RM.contiguous(),
        weight_VM,
        weight_VM if bias_V is None else bias_V,
        is_never_V,
        shortest_N,
        positions_N,
        highest_RB,
        totals_RB,
        scores_RX,
        tokens_RX,
        rows,
        vocabulary,
        shortest_N.stride(0),
        blocks,
        scale,
        eos_id,
        DIM=dim,
        WIDTH=rows // len(positions_N),
        TOP=top,
        HAS_BIAS=bias_V is not None,
        IS_INTERPRETED=knobs.runtime.interpret,
        BLOCK_R=block_rows,
        BLOCK_V=_BLOCK_V,
        BLOCK_M=_BLOCK_M,
    )
    chosen_RT = torch.empty_like(log_probs_RT, dtype=torch.int64)
    kernels.choose_tokens[(rows,)](
        highest_RB,
        totals_RB,
        scores_RX,
        tokens_RX,
        log_probs_RT,
        chosen_RT,
        blocks,
        vocabulary,
        TOP=top,
        BLOCK_B=next_power_of_2(blocks),
        BLOCK_X=next_power_of_2(blocks * top),
    )
    return chosen_RT


@operator(
    "record_greedy(Tensor chosen, Tensor log_probs, int eos_id, Tensor(a!) positions, Tensor longest, "
    "Tensor(b!) is_live, Tensor(c!) tokens, Tensor(d!) past_tokens, Tensor(e!) past_parents, "
    "Tensor(f!) past_log_probs, Tensor(g!) flags, Tensor(h!) has_ended, Tensor(i!) totals, "
    "Tensor(j!) lengths, Tensor(k!) eos_log_probs) -> ()"
)
def record_greedy(chosen_NK: Tensor, log_probs_NK: Tensor, eos_id: int, *tensors: Tensor) -> None:
    """Append the likeliest token of each hypothesis, and freeze the slots that are complete.

    Args:
        chosen_NK: The tokens.
        log_probs_NK: Their log-probabilities.
        eos_id: EOS, which ends a hypothesis.
        tensors: Those of the slots, see BatchState, then those of the hypotheses, see IndependentSearch.
    """
    from triton import next_power_of_2

    from model.network.triton_ops import kernels

    _, longest_N, _, _, past_tokens_NKC, *_ = tensors
    slots, width = chosen_NK.shape
    kernels.record_greedy[(slots,)](
        chosen_NK,
        log_probs_NK,
        *tensors,
        longest_N.stride(0),
        past_tokens_NKC.shape[2],
        eos_id,
        WIDTH=width,
        BLOCK_K=next_power_of_2(width),
        num_warps=1,
    )


@operator(
    "record_beams(Tensor log_probs, Tensor candidates, int eos_id, Tensor(a!) positions, Tensor longest, "
    "Tensor(b!) is_live, Tensor(c!) tokens, Tensor(d!) past_tokens, Tensor(e!) past_parents, "
    "Tensor(f!) past_log_probs, Tensor(g!) flags, Tensor(h!) totals, Tensor(i!) num_finished, "
    "Tensor(j!) pool, Tensor num_hypotheses, Tensor stop, Tensor enough, Tensor length_exponent, "
    "Tensor length_offset, Tensor length_scale) -> Tensor"
)
def record_beams(log_probs_NKT: Tensor, tokens_NKT: Tensor, eos_id: int, *tensors: Tensor) -> Tensor:
    """Continue the best hypotheses of each slot, pool those that end, and freeze the slots that are settled.

    The reference is BeamSearch, with what BatchState does after it.

    Args:
        log_probs_NKT: Log-probabilities of the likeliest tokens of each hypothesis, best first.
        tokens_NKT: These tokens; at least 2 · K in all that are not EOS, if the vocabulary has them.
        eos_id: EOS, which ends a hypothesis.
        tensors: Those of the slots, see BatchState; those of the hypotheses, see BeamSearch; and options, see
            OptionRows.

    Returns:
        The hypothesis that each one continues, (N, K); itself where a slot is not live.
    """
    from triton import next_power_of_2

    from model.network.triton_ops import kernels

    _, longest_N, _, _, past_tokens_NKC, *_, length_scale_N = tensors
    slots, width, top = tokens_NKT.shape
    parents_NK = tokens_NKT.new_empty(slots, width)
    kernels.record_beams[(slots,)](
        log_probs_NKT,
        tokens_NKT,
        *tensors,
        parents_NK,
        longest_N.stride(0),
        length_scale_N.stride(0),
        past_tokens_NKC.shape[2],
        eos_id,
        WIDTH=width,
        TOP=top,
        BLOCK_K=next_power_of_2(width),
        BLOCK_X=next_power_of_2(width * top),
        num_warps=1,
    )
    return parents_NK
