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
def embed(
    tokens_R: Pointer,
    weight_VM: Pointer,
    positions_N: Pointer,
    added_CM: Pointer,
    states_RM: Pointer,
    scale: Number,
    capacity: Number,
    DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    HAS_ADDED: tl.constexpr,
    BLOCK_M: tl.constexpr,
) -> None:
    row, at_M = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK_M)
    is_dim_M = at_M < DIM
    token = tl.load(tokens_R + row)
    states_M = tl.load(weight_VM + token * DIM + at_M, mask=is_dim_M, other=0.0).to(tl.float32) * scale
    if HAS_ADDED:
        position = tl.minimum(tl.load(positions_N + row // WIDTH), capacity - 1)
        states_M += tl.load(added_CM + position * DIM + at_M, mask=is_dim_M, other=0.0).to(tl.float32)
    tl.store(states_RM + row * DIM + at_M, states_M.to(states_RM.dtype.element_ty), mask=is_dim_M)


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


@triton.jit
def score_vocabulary(
    states_RM: Pointer,
    weight_VM: Pointer,
    bias_V: Pointer,
    is_never_V: Pointer,
    shortest_N: Pointer,
    positions_N: Pointer,
    highest_RB: Pointer,
    totals_RB: Pointer,
    scores_RBT: Pointer,
    tokens_RBT: Pointer,
    rows: Number,
    vocabulary: Number,
    shortest_pitch: Number,
    num_blocks: Number,
    scale: Number,
    eos: Number,
    DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    TOP: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    IS_INTERPRETED: tl.constexpr,
    BLOCK_R: tl.constexpr,
    BLOCK_V: tl.constexpr,
    BLOCK_M: tl.constexpr,
) -> None:
    at_R = tl.program_id(0) * BLOCK_R + tl.arange(0, BLOCK_R)
    block = tl.program_id(1)
    at_V, block_M = block * BLOCK_V + tl.arange(0, BLOCK_V), tl.arange(0, BLOCK_M)
    is_row_R, is_token_V = at_R < rows, at_V < vocabulary
    logits_RV = tl.zeros([BLOCK_R, BLOCK_V], tl.float32)
    for start in range(0, DIM, BLOCK_M):
        at_M = start + block_M
        is_dim_M = at_M < DIM
        states_at_RM = states_RM + at_R[:, None].to(tl.int64) * DIM + at_M[None, :]
        states = tl.load(states_at_RM, mask=is_row_R[:, None] & is_dim_M[None, :], other=0.0)
        weight_at_MV = weight_VM + at_V[None, :].to(tl.int64) * DIM + at_M[:, None]
        weight = tl.load(weight_at_MV, mask=is_dim_M[:, None] & is_token_V[None, :], other=0.0)
        if IS_INTERPRETED:  # the interpreter multiplies bfloat16 numbers as if they were integers
            states, weight = states.to(tl.float32), weight.to(tl.float32)
        logits_RV = tl.dot(states, weight, logits_RV, input_precision="ieee")
    logits_RV *= scale
    if HAS_BIAS:
        logits_RV += tl.load(bias_V + at_V, mask=is_token_V, other=0.0).to(tl.float32)[None, :]
    logits_RV = tl.where(is_token_V[None, :], logits_RV, float("-inf"))
    highest_R = tl.max(logits_RV, 1)
    at_RB = at_R.to(tl.int64) * num_blocks + block
    tl.store(highest_RB + at_RB, highest_R, mask=is_row_R)
    tl.store(totals_RB + at_RB, tl.sum(tl.exp(logits_RV - highest_R[:, None]), 1), mask=is_row_R)
    slot_R = at_R // WIDTH
    shortest_R = tl.load(shortest_N + slot_R * shortest_pitch, mask=is_row_R, other=0)
    is_early_R = shortest_R > tl.load(positions_N + slot_R, mask=is_row_R, other=0) + 1
    is_never_V = tl.load(is_never_V + at_V, mask=is_token_V, other=1) != 0
    is_forbidden_RV = is_never_V[None, :] | (is_early_R[:, None] & (at_V == eos)[None, :])
    scores_RV = tl.where(is_forbidden_RV, float("-inf"), logits_RV)
    for rank in tl.static_range(TOP):
        best_R = tl.max(scores_RV, 1)
        is_best_RV = scores_RV == best_R[:, None]
        token_R = tl.min(tl.where(is_best_RV, at_V[None, :], vocabulary - 1), 1)
        tl.store(scores_RBT + at_RB * TOP + rank, best_R, mask=is_row_R)
        tl.store(tokens_RBT + at_RB * TOP + rank, token_R, mask=is_row_R)
        scores_RV = tl.where(at_V[None, :] == token_R[:, None], float("-inf"), scores_RV)


@triton.jit
def choose_tokens(
    highest_RB: Pointer,
    totals_RB: Pointer,
    scores_RX: Pointer,
    tokens_RX: Pointer,
    log_probs_RT: Pointer,
    chosen_RT: Pointer,
    num_blocks: Number,
    vocabulary: Number,
    TOP: tl.constexpr,
    BLOCK_B: tl.constexpr,
    BLOCK_X: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64)
    at_B, at_X = tl.arange(0, BLOCK_B), tl.arange(0, BLOCK_X)
    is_block_B, is_score_X = at_B < num_blocks, at_X < num_blocks * TOP
    highest_B = tl.load(highest_RB + row * num_blocks + at_B, mask=is_block_B, other=float("-inf"))
    totals_B = tl.load(totals_RB + row * num_blocks + at_B, mask=is_block_B, other=0.0)
    highest = tl.max(highest_B, 0)
    log_total = highest + tl.log(tl.sum(totals_B * tl.exp(highest_B - highest), 0))
    from_X = row * num_blocks * TOP + at_X
    scores_X = tl.load(scores_RX + from_X, mask=is_score_X, other=float("-inf"))
    tokens_X = tl.load(tokens_RX + from_X, mask=is_score_X, other=0)
    for rank in tl.static_range(TOP):
        best = tl.max(scores_X, 0)
        token = tl.min(tl.where((scores_X == best) & is_score_X, tokens_X, vocabulary - 1), 0)
        tl.store(log_probs_RT + row * TOP + rank, best - log_total)
        tl.store(chosen_RT + row * TOP + rank, token.to(tl.int64))
        scores_X = tl.where(tokens_X == token, float("-inf"), scores_X)


@triton.jit
def record_greedy(
    chosen_NK: Pointer,
    log_probs_NK: Pointer,
    is_live_N: Pointer,
    positions_N: Pointer,
    longest_N: Pointer,
    ended_NK: Pointer,
    totals_NK: Pointer,
    lengths_NK: Pointer,
    eos_log_probs_NK: Pointer,
    tokens_NK: Pointer,
    past_tokens_NKC: Pointer,
    past_parents_NKC: Pointer,
    past_log_probs_NKC: Pointer,
    flags_N2: Pointer,
    longest_pitch: Number,
    capacity: Number,
    eos: Number,
    WIDTH: tl.constexpr,
    BLOCK_K: tl.constexpr,
) -> None:
    slot, at_K = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK_K)
    is_row_K, row_K = at_K < WIDTH, slot * WIDTH + at_K
    is_live = tl.load(is_live_N + slot) != 0
    position = tl.load(positions_N + slot)
    token_K = tl.load(chosen_NK + row_K, mask=is_row_K, other=0)
    log_prob_K = tl.load(log_probs_NK + row_K, mask=is_row_K, other=0.0)
    has_ended_K = tl.load(ended_NK + row_K, mask=is_row_K, other=1) != 0
    is_open_K = is_row_K & (has_ended_K == 0) & is_live
    is_eos_K = token_K == eos
    total_K = tl.load(totals_NK + row_K, mask=is_row_K, other=0.0) + tl.where(is_open_K, log_prob_K, 0.0)
    length_K = tl.load(lengths_NK + row_K, mask=is_row_K, other=0) + is_open_K.to(tl.int64)
    has_ended_K = has_ended_K | (is_open_K & (is_eos_K | (total_K == float("-inf"))))
    tl.store(totals_NK + row_K, total_K, mask=is_open_K)
    tl.store(lengths_NK + row_K, length_K, mask=is_open_K)
    tl.store(eos_log_probs_NK + row_K, log_prob_K, mask=is_open_K & is_eos_K)
    tl.store(ended_NK + row_K, has_ended_K, mask=is_open_K)
    tl.store(tokens_NK + row_K, token_K, mask=is_row_K)
    past_K = row_K * capacity + position
    tl.store(past_tokens_NKC + past_K, token_K, mask=is_row_K & is_live)
    tl.store(past_parents_NKC + past_K, at_K.to(tl.int64), mask=is_row_K & is_live)
    tl.store(past_log_probs_NKC + past_K, log_prob_K, mask=is_row_K & is_live)
    position += is_live.to(tl.int64)
    tl.store(positions_N + slot, position)
    num_broken = tl.sum((is_row_K & (log_prob_K != log_prob_K)).to(tl.int32), 0)
    num_open = tl.sum((has_ended_K == 0).to(tl.int32), 0)
    is_short = position < tl.load(longest_N + slot * longest_pitch)
    is_live = is_live & is_short & (num_broken == 0) & (num_open > 0)
    tl.store(is_live_N + slot, is_live)
    tl.store(flags_N2 + slot * 2, is_live)
    tl.store(flags_N2 + slot * 2 + 1, num_broken > 0)
