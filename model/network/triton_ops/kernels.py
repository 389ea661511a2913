"""The kernels, in Triton. `layers` and `choice` start them and describe what they compute.

Shapes: R rows (slots × hypotheses), N slots, K hypotheses, H heads, D head dim, C positions, M model dim,
V vocabulary, B blocks of the vocabulary, T ranks (likeliest tokens), X candidates of a row or slot.

A name in capitals is a constant of the compiled kernel: WIDTH is the number of hypotheses of a slot, a BLOCK
the number of elements that a program holds along a dimension, a power of two. A pitch is the number of
elements from one row of a tensor to the next. Sums are float32.
"""

from typing import TypeAlias

import triton
from triton import language as tl

from model.decode_request import STOPS

# Finite, so that the difference of two scores that nothing has raised yet is 0 and not NaN.
_LOWEST = tl.constexpr(-1e30)
# Places in STOPS of the rules by which a search by beams stops, other than that of all searches.
STOP_AT_FIRST, STOP_AT_COUNT, STOP_AT_POOL = (
    tl.constexpr(STOPS.index(n)) for n in ("first", "count", "pool")
)

Pointer: TypeAlias = tl.tensor
Number: TypeAlias = tl.tensor


# A program computes one row and head, some positions at a time: its softmax keeps the highest score so far,
# and rescales its sums when a higher one comes (Milakov and Gimelshein 2018,
# https://arxiv.org/abs/1805.02867). In self-attention it also writes the key and value of this step, which it
# does not read back from the pool.
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


# A program computes one row.
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


# A program computes one row, which it holds as a whole.
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


# A program computes the logits of some rows for one block of the vocabulary. For each row it writes the TOP
# best, the highest logit, and the sum of exponentials relative to that; from these two of all blocks
# `choose_tokens` computes the normaliser of the softmax.
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
    for rank in range(TOP):
        best_R = tl.max(scores_RV, 1)
        is_best_RV = scores_RV == best_R[:, None]
        token_R = tl.min(tl.where(is_best_RV, at_V[None, :], vocabulary - 1), 1)
        tl.store(scores_RBT + at_RB * TOP + rank, best_R, mask=is_row_R)
        tl.store(tokens_RBT + at_RB * TOP + rank, token_R, mask=is_row_R)
        scores_RV = tl.where(at_V[None, :] == token_R[:, None], float("-inf"), scores_RV)


# A program chooses among what all blocks of the vocabulary have for one row.
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
    for rank in range(TOP):
        best = tl.max(scores_X, 0)
        token = tl.min(tl.where((scores_X == best) & is_score_X, tokens_X, vocabulary - 1), 0)
        tl.store(log_probs_RT + row * TOP + rank, best - log_total)
        tl.store(chosen_RT + row * TOP + rank, token.to(tl.int64))
        scores_X = tl.where(tokens_X == token, float("-inf"), scores_X)


# A program records one slot, as IndependentSearch and BatchState do in PyTorch.
@triton.jit
def record_greedy(
    chosen_NK: Pointer,
    log_probs_NK: Pointer,
    positions_N: Pointer,
    longest_N: Pointer,
    is_live_N: Pointer,
    tokens_NK: Pointer,
    past_tokens_NKC: Pointer,
    past_parents_NKC: Pointer,
    past_log_probs_NKC: Pointer,
    flags_N2: Pointer,
    ended_NK: Pointer,
    totals_NK: Pointer,
    lengths_NK: Pointer,
    eos_log_probs_NK: Pointer,
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


# A program records one slot, as BeamSearch and BatchState do in PyTorch.
@triton.jit
def record_beams(
    log_probs_NX: Pointer,
    candidates_NX: Pointer,
    positions_N: Pointer,
    longest_N: Pointer,
    is_live_N: Pointer,
    tokens_NK: Pointer,
    past_tokens_NKC: Pointer,
    past_parents_NKC: Pointer,
    past_log_probs_NKC: Pointer,
    flags_N2: Pointer,
    totals_NK: Pointer,
    num_finished_N: Pointer,
    pool_NK4: Pointer,
    num_hypotheses_N: Pointer,
    stop_N: Pointer,
    enough_N: Pointer,
    length_exponent_N: Pointer,
    length_offset_N: Pointer,
    length_scale_N: Pointer,
    parents_NK: Pointer,
    integral_pitch: Number,
    fractional_pitch: Number,
    capacity: Number,
    eos: Number,
    WIDTH: tl.constexpr,
    TOP: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_X: tl.constexpr,
) -> None:
    slot, at_K, at_X = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK_K), tl.arange(0, BLOCK_X)
    is_row_K, row_K = at_K < WIDTH, slot * WIDTH + at_K
    is_live, position = tl.load(is_live_N + slot) != 0, tl.load(positions_N + slot)
    integral, fractional = slot * integral_pitch, slot * fractional_pitch

    # Continuations: what each hypothesis has, and a token more.
    is_left_X, from_X = at_X < WIDTH * TOP, slot * (WIDTH * TOP) + at_X
    log_probs_X = tl.load(log_probs_NX + from_X, mask=is_left_X, other=0.0)
    tokens_X = tl.load(candidates_NX + from_X, mask=is_left_X, other=0)
    totals_X = log_probs_X + tl.load(totals_NK + slot * WIDTH + at_X // TOP, mask=is_left_X, other=0.0)
    is_broken = tl.sum((log_probs_X != log_probs_X).to(tl.int32), 0) > 0
    totals_X = tl.where(is_live & (totals_X == totals_X), totals_X, float("-inf"))

    # The 2K best, best first: the first K may end, and the first K that do not end go on.
    first_total_K = tl.full([BLOCK_K], float("-inf"), tl.float32)
    first_log_prob_K = tl.full([BLOCK_K], 0.0, tl.float32)
    first_parent_K = tl.full([BLOCK_K], 0, tl.int64)
    first_ends_K = tl.full([BLOCK_K], 0, tl.int32)
    total_K, log_prob_K, parent_K, token_K = first_total_K, first_log_prob_K, first_parent_K, first_parent_K
    num_going_on = tl.sum(first_ends_K, 0)
    for rank in range(2 * WIDTH):
        best = tl.max(tl.where(is_left_X, totals_X, float("-inf")), 0)
        place = tl.min(tl.where(is_left_X & (totals_X == best), at_X, BLOCK_X - 1), 0)
        is_it_X = at_X == place
        token = tl.sum(tl.where(is_it_X, tokens_X, 0), 0)
        log_prob = tl.sum(tl.where(is_it_X, log_probs_X, 0.0), 0)
        is_left_X = is_left_X & (at_X != place)
        is_eos = (token == eos).to(tl.int32)
        is_first_K = at_K == rank
        first_total_K = tl.where(is_first_K, best, first_total_K)
        first_log_prob_K = tl.where(is_first_K, log_prob, first_log_prob_K)
        first_parent_K = tl.where(is_first_K, place // TOP, first_parent_K)
        first_ends_K = tl.where(is_first_K, is_eos, first_ends_K)
        is_next_K = (at_K == num_going_on) & (is_eos == 0)
        total_K = tl.where(is_next_K, best, total_K)
        log_prob_K = tl.where(is_next_K, log_prob, log_prob_K)
        parent_K = tl.where(is_next_K, place // TOP, parent_K)
        token_K = tl.where(is_next_K, token, token_K)
        num_going_on += 1 - is_eos

    # The pool: the K best of those in it and those that end now.
    offset, scale = tl.load(length_offset_N + fractional), tl.load(length_scale_N + fractional)
    exponent = tl.load(length_exponent_N + fractional)
    divisor = tl.exp(tl.log((offset + (position + 1).to(tl.float32)) / scale) * exponent)
    is_end_K = is_row_K & (first_ends_K != 0) & (first_total_K > float("-inf"))
    new_score_K = tl.where(is_end_K, first_total_K / divisor, float("-inf"))
    old_score_K = tl.load(pool_NK4 + row_K * 4, mask=is_row_K, other=float("-inf"))
    old_length_K = tl.load(pool_NK4 + row_K * 4 + 1, mask=is_row_K, other=0.0)
    old_row_K = tl.load(pool_NK4 + row_K * 4 + 2, mask=is_row_K, other=0.0)
    old_log_prob_K = tl.load(pool_NK4 + row_K * 4 + 3, mask=is_row_K, other=0.0)
    score_K = tl.full([BLOCK_K], float("-inf"), tl.float32)
    length_K, end_row_K, end_log_prob_K = score_K, score_K, score_K
    for rank in range(WIDTH):
        best = tl.maximum(tl.max(old_score_K, 0), tl.max(new_score_K, 0))
        is_old = tl.max(old_score_K, 0) == best
        is_best_K = is_row_K & (tl.where(is_old, old_score_K, new_score_K) == best)
        place = tl.min(tl.where(is_best_K, at_K, BLOCK_K - 1), 0)
        is_it_K = at_K == place
        length = tl.sum(tl.where(is_it_K, tl.where(is_old, old_length_K, position.to(tl.float32)), 0.0), 0)
        end_row = tl.where(is_old, old_row_K, first_parent_K.to(tl.float32))
        end_log_prob = tl.where(is_old, old_log_prob_K, first_log_prob_K)
        is_place_K = at_K == rank
        score_K = tl.where(is_place_K, best, score_K)
        length_K = tl.where(is_place_K, length, length_K)
        end_row_K = tl.where(is_place_K, tl.sum(tl.where(is_it_K, end_row, 0.0), 0), end_row_K)
        end_log_prob_K = tl.where(is_place_K, tl.sum(tl.where(is_it_K, end_log_prob, 0.0), 0), end_log_prob_K)
        old_score_K = tl.where(at_K == tl.where(is_old, place, -1), float("-inf"), old_score_K)
        new_score_K = tl.where(at_K == tl.where(is_old, -1, place), float("-inf"), new_score_K)
    num_finished = tl.load(num_finished_N + slot) + tl.sum(is_end_K.to(tl.int64), 0)

    # The rules by which a search is settled; see `is_settled` in model.decoding.pytorch.search.beam.
    longest = tl.load(longest_N + integral)
    longest_divisor = tl.exp(tl.log((offset + longest.to(tl.float32)) / scale) * exponent)
    stop, enough = tl.load(stop_N + integral), tl.load(enough_N + fractional)
    wanted = tl.minimum(tl.maximum(tl.load(num_hypotheses_N + integral), 1), WIDTH)
    worst_wanted = tl.sum(tl.where(at_K == wanted - 1, score_K, 0.0), 0)
    best_total = tl.max(tl.where(is_row_K, total_K, float("-inf")), 0)
    to_beat = tl.sum(tl.where(at_K == tl.where(stop == STOP_AT_POOL, WIDTH - 1, 0), score_K, 0.0), 0)
    is_ahead = (to_beat >= best_total / divisor) | (stop == STOP_AT_COUNT)
    is_enough = (num_finished.to(tl.float32) >= enough) & is_ahead
    has_first_ended = tl.sum(tl.where(at_K == 0, first_ends_K, 0), 0) > 0
    is_settled = (worst_wanted >= best_total / longest_divisor) | is_enough
    is_settled = is_settled | (has_first_ended & (stop == STOP_AT_FIRST))

    is_written_K = is_row_K & is_live
    tl.store(parents_NK + row_K, tl.where(is_live, parent_K, at_K.to(tl.int64)), mask=is_row_K)
    tl.store(totals_NK + row_K, total_K, mask=is_written_K)
    tl.store(tokens_NK + row_K, token_K, mask=is_written_K)
    past_K = row_K * capacity + position
    tl.store(past_tokens_NKC + past_K, token_K, mask=is_written_K)
    tl.store(past_parents_NKC + past_K, parent_K, mask=is_written_K)
    tl.store(past_log_probs_NKC + past_K, log_prob_K, mask=is_written_K)
    tl.store(pool_NK4 + row_K * 4, score_K, mask=is_written_K)
    tl.store(pool_NK4 + row_K * 4 + 1, length_K, mask=is_written_K)
    tl.store(pool_NK4 + row_K * 4 + 2, end_row_K, mask=is_written_K)
    tl.store(pool_NK4 + row_K * 4 + 3, end_log_prob_K, mask=is_written_K)
    tl.store(num_finished_N + slot, num_finished)
    position += is_live.to(tl.int64)
    tl.store(positions_N + slot, position)
    is_live = is_live & (position < longest) & (is_settled == 0) & (is_broken == 0)
    tl.store(is_live_N + slot, is_live)
    tl.store(flags_N2 + slot * 2, is_live)
    tl.store(flags_N2 + slot * 2 + 1, is_broken)
