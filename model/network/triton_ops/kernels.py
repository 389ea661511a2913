"""The kernels, in Triton; the modules beside this one start them and say what they compute.

Shapes: R rows (slots × hypotheses), H heads, D head dim, C positions, M model dim. A name in capitals is a
constant of the compiled kernel. Sums are float32.
"""

from typing import TypeAlias

import triton
from triton import language as tl

# Finite, so that the difference of two scores that nothing has raised yet is 0 and not NaN.
_LOWEST = tl.constexpr(-1e30)

Pointer: TypeAlias = tl.tensor
Number: TypeAlias = tl.tensor


@triton.jit
def attend(
    queries_RHD: Pointer,
    keys_RHD: Pointer,
    values_RHD: Pointer,
    pool_keys_PHD: Pointer,
    pool_values_PHD: Pointer,
    lengths_N: Pointer,
    is_live_N: Pointer,
    table_NC: Pointer,
    targets_NC: Pointer,
    is_seen_NC: Pointer,
    bias_HC: Pointer,
    joined_RHD: Pointer,
    query_pitch: Number,
    key_pitch: Number,
    value_pitch: Number,
    table_pitch: Number,
    bias_pitch: Number,
    scale: Number,
    capacity: Number,
    HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    ROWS_OF_A_LIST: tl.constexpr,
    IS_SELF: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    BLOCK_C: tl.constexpr,
    BLOCK_D: tl.constexpr,
) -> None:
    row, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    slot, entry = row // WIDTH, row // ROWS_OF_A_LIST
    at_D, block_C = tl.arange(0, BLOCK_D), tl.arange(0, BLOCK_C)
    is_dim_D = at_D < HEAD_DIM
    in_head_D = head * HEAD_DIM + at_D
    is_live = tl.load(is_live_N + slot) != 0
    length = tl.load(lengths_N + slot)
    query_D = tl.load(queries_RHD + row * query_pitch + in_head_D, mask=is_dim_D, other=0.0)
    query_D = query_D.to(tl.float32) * scale
    if IS_SELF:
        length = tl.minimum(length, capacity - 1)
        written = tl.load(targets_NC + entry * table_pitch + length)
        tl.store(table_NC + entry * table_pitch + length, written, mask=is_live)
        key_D = tl.load(keys_RHD + row * key_pitch + in_head_D, mask=is_dim_D, other=0.0)
        value_D = tl.load(values_RHD + row * value_pitch + in_head_D, mask=is_dim_D, other=0.0)
        key_D = key_D.to(pool_keys_PHD.dtype.element_ty)
        value_D = value_D.to(pool_values_PHD.dtype.element_ty)
        to_D = written * (HEADS * HEAD_DIM) + in_head_D
        tl.store(pool_keys_PHD + to_D, key_D, mask=is_dim_D & is_live)
        tl.store(pool_values_PHD + to_D, value_D, mask=is_dim_D & is_live)
        highest = tl.sum(query_D * key_D.to(tl.float32), 0)
        if HAS_BIAS:
            highest += tl.load(bias_HC + head * bias_pitch).to(tl.float32)
        total = highest * 0.0 + 1.0
        sum_D = value_D.to(tl.float32)
    else:
        highest = tl.sum(query_D * 0.0, 0) + _LOWEST
        total = highest * 0.0
        sum_D = tl.zeros([BLOCK_D], tl.float32)
    end = tl.where(is_live, length, 0)
    for start in range(0, end, BLOCK_C):
        at_C = start + block_C
        is_seen_C = at_C < end
        slots_C = tl.load(table_NC + entry * table_pitch + at_C, mask=is_seen_C, other=0)
        if not IS_SELF:
            is_real_C = tl.load(is_seen_NC + entry * table_pitch + at_C, mask=is_seen_C, other=0)
            is_seen_C = is_seen_C & (is_real_C != 0)
        from_CD = slots_C[:, None] * (HEADS * HEAD_DIM) + in_head_D[None, :]
        is_read_CD = is_seen_C[:, None] & is_dim_D[None, :]
        keys_CD = tl.load(pool_keys_PHD + from_CD, mask=is_read_CD, other=0.0).to(tl.float32)
        values_CD = tl.load(pool_values_PHD + from_CD, mask=is_read_CD, other=0.0).to(tl.float32)
        scores_C = tl.sum(keys_CD * query_D[None, :], 1)
        if HAS_BIAS:
            ago_C = tl.where(is_seen_C, length - at_C, 0)
            scores_C += tl.load(bias_HC + head * bias_pitch + ago_C).to(tl.float32)
        scores_C = tl.where(is_seen_C, scores_C, float("-inf"))
        new_highest = tl.maximum(highest, tl.max(scores_C, 0))
        weights_C = tl.exp(scores_C - new_highest)
        decay = tl.exp(highest - new_highest)
        total = total * decay + tl.sum(weights_C, 0)
        sum_D = sum_D * decay + tl.sum(weights_C[:, None] * values_CD, 0)
        highest = new_highest
    joined_D = sum_D / tl.where(total == 0.0, 1.0, total)
    to_D = row * (HEADS * HEAD_DIM) + in_head_D
    tl.store(joined_RHD + to_D, joined_D.to(joined_RHD.dtype.element_ty), mask=is_dim_D)


@triton.jit
def add_norm(
    stream_RM: Pointer,
    update_RM: Pointer,
    weight_M: Pointer,
    bias_M: Pointer,
    normed_RM: Pointer,
    epsilon: Number,
    DIM: tl.constexpr,
    FORM: tl.constexpr,
    HAS_UPDATE: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    BLOCK_M: tl.constexpr,
) -> None:
    at_M = tl.arange(0, BLOCK_M)
    is_dim_M = at_M < DIM
    in_row_M = tl.program_id(0).to(tl.int64) * DIM + at_M
    states_M = tl.load(stream_RM + in_row_M, mask=is_dim_M, other=0.0).to(tl.float32)
    if HAS_UPDATE:
        states_M += tl.load(update_RM + in_row_M, mask=is_dim_M, other=0.0).to(tl.float32)
        rounded_M = states_M.to(update_RM.dtype.element_ty)
        tl.store(update_RM + in_row_M, rounded_M, mask=is_dim_M)
        states_M = rounded_M.to(tl.float32)
    if FORM == "root_mean_square":
        states_M = states_M / tl.sqrt(tl.sum(states_M * states_M, 0) / DIM + epsilon)
    else:
        centred_M = tl.where(is_dim_M, states_M - tl.sum(states_M, 0) / DIM, 0.0)
        squares = tl.sum(centred_M * centred_M, 0)
        if FORM == "variance":
            states_M = centred_M / tl.sqrt(squares / DIM + epsilon)
        else:
            states_M = centred_M / (tl.sqrt(squares / (DIM - 1)) + epsilon)
    states_M *= tl.load(weight_M + at_M, mask=is_dim_M, other=0.0).to(tl.float32)
    if HAS_BIAS:
        states_M += tl.load(bias_M + at_M, mask=is_dim_M, other=0.0).to(tl.float32)
    tl.store(normed_RM + in_row_M, states_M.to(normed_RM.dtype.element_ty), mask=is_dim_M)
