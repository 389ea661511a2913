"""The layers of a decoder step: embedding, attention by block tables, and addition to the residual stream.

Attention of one query a row reads the positions that a block table lists, without a gathered copy or a mask.

Shapes: N slots, K hypotheses, R rows (slots × hypotheses), H heads, D head dim, C positions, S source
positions, P KV slots, V vocabulary, M model dim.
"""

from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn

from model.config import NormForm
from model.network.triton_ops import operator

if TYPE_CHECKING:
    from model.network.decoder_state import DecoderState

_BLOCK = 32
Pool = tuple[Tensor, Tensor]
"""Keys and values of a layer by KV slot, (P, H, D) each."""


def attend_to_self(
    queries_RHD: Tensor, keys_RHD: Tensor, values_RHD: Tensor, pool: Pool, state: "DecoderState", scale: float
) -> Tensor:
    """Write this step's keys and values, and attend to them and to those before them.

    Returns:
        Joined heads, (R, H·D); of no meaning where a slot is not live.
    """
    slots, bias_HC = len(queries_RHD) // state.width, state.tables.distance_bias_HC
    lengths = state.positions_N[:slots], state.is_live_N[:slots]
    lists = state.block_table_NKC[:slots], state.target_kv_NKC[:slots]
    return _attend(queries_RHD, keys_RHD, values_RHD, *pool, *lengths, *lists, None, bias_HC, scale)


def attend_to_source(queries_RHD: Tensor, pool: Pool, state: "DecoderState", scale: float) -> Tensor:
    """Attend to the source of each row's slot; returns as `attend_to_self`."""
    slots = len(queries_RHD) // state.width
    lengths = state.source_lengths_N[:slots], state.is_live_N[:slots]
    lists = state.source_kv_NS[:slots, None], None, state.is_source_NS[:slots]
    return _attend(queries_RHD, None, None, *pool, *lengths, *lists, None, scale)


@operator(
    "attend(Tensor queries, Tensor? keys, Tensor? values, Tensor(a!) pool_keys, Tensor(b!) pool_values, "
    "Tensor lengths, Tensor is_live, Tensor(c!) table, Tensor? targets, Tensor? is_seen, Tensor? bias, "
    "float scale) -> Tensor"
)
def _attend(
    queries_RHD: Tensor,
    keys_RHD: Tensor | None,
    values_RHD: Tensor | None,
    pool_keys_PHD: Tensor,
    pool_values_PHD: Tensor,
    lengths_N: Tensor,
    is_live_N: Tensor,
    table_NKC: Tensor,
    targets_NKC: Tensor | None,
    is_seen_NC: Tensor | None,
    bias_HC: Tensor | None,
    scale: float,
) -> Tensor:
    from triton import next_power_of_2

    from model.network.triton_ops import kernels

    rows, heads, head_dim = queries_RHD.shape
    _, lists_of_a_slot, capacity = table_NKC.shape
    width = rows // len(lengths_N)
    # The kernel knows the pitch of the rows, but reads the heads of a row as neighbours: a rotation of the
    # hypotheses of one slot leaves them apart.
    queries_RM = unused = queries_RHD.flatten(1)
    keys_RM, values_RM = (unused if each is None else each.flatten(1) for each in (keys_RHD, values_RHD))
    joined = queries_RHD.new_empty(rows, heads * head_dim)
    kernels.attend[(rows, heads)](
        queries_RM,
        keys_RM,
        values_RM,
        pool_keys_PHD,
        pool_values_PHD,
        lengths_N,
        is_live_N,
        table_NKC,
        unused if targets_NKC is None else targets_NKC,
        unused if is_seen_NC is None else is_seen_NC,
        unused if bias_HC is None else bias_HC,
        joined,
        queries_RM.stride(0),
        keys_RM.stride(0),
        values_RM.stride(0),
        table_NKC.stride(-2),
        0 if bias_HC is None else bias_HC.stride(0),
        scale,
        capacity,
        HEADS=heads,
        HEAD_DIM=head_dim,
        WIDTH=width,
        ROWS_OF_A_LIST=width // lists_of_a_slot,
        IS_SELF=keys_RHD is not None,
        HAS_BIAS=bias_HC is not None,
        BLOCK_C=_BLOCK,
        BLOCK_D=next_power_of_2(head_dim),
    )
    return joined


@operator("embed(Tensor tokens, Tensor weight, float scale, Tensor positions, Tensor? added) -> Tensor")
def embed(
    tokens_NK: Tensor, weight_VM: Tensor, scale: float, positions_N: Tensor, added_CM: Tensor | None
) -> Tensor:
    """The sum scale · weight[token] + added[position], (N, K, M).

    Args:
        tokens_NK: Tokens.
        weight_VM: Their vectors.
        scale: Factor of the vectors.
        positions_N: Position of each slot; one beyond the last of `added_CM` counts as the last.
        added_CM: What each position adds; None for nothing.
    """
    from triton import next_power_of_2

    from model.network.triton_ops import kernels

    dim = weight_VM.shape[1]
    states_NKM = weight_VM.new_empty(*tokens_NK.shape, dim)
    kernels.embed[(tokens_NK.numel(),)](
        tokens_NK.contiguous(),
        weight_VM,
        positions_N,
        weight_VM if added_CM is None else added_CM,
        states_NKM,
        scale,
        1 if added_CM is None else len(added_CM),
        DIM=dim,
        WIDTH=tokens_NK.shape[1],
        HAS_ADDED=added_CM is not None,
        BLOCK_M=next_power_of_2(dim),
    )
    return states_NKM


def add_norm(
    stream: Tensor, update: Tensor | None, norm: nn.Module, form: NormForm, *, is_fused: bool
) -> tuple[Tensor, Tensor]:
    """The sum stream + update, and its norm.

    Args:
        stream: (…, M).
        update: As `stream`, and overwritten by the fused kernel; None adds nothing.
        norm: A norm of this form.
        form: What the norm computes.
        is_fused: Whether to use the Triton kernel.
    """
    if not is_fused:
        stream = stream if update is None else stream + update
        return stream, norm(stream)
    epsilon = cast(float, norm.eps if isinstance(norm, nn.LayerNorm) else norm.epsilon)
    weight, bias = cast(Tensor, norm.weight), cast(Tensor | None, norm.bias)
    normed = _add_norm(stream, update, weight, bias, epsilon, form)
    return (stream if update is None else update), normed


@operator(
    "add_norm(Tensor stream, Tensor(a!)? update, Tensor weight, Tensor? bias, float epsilon, str form)"
    " -> Tensor"
)
def _add_norm(
    stream: Tensor, update: Tensor | None, weight: Tensor, bias: Tensor | None, epsilon: float, form: str
) -> Tensor:
    from triton import next_power_of_2

    from model.network.triton_ops import kernels

    stream, normed = stream.contiguous(), torch.empty_like(stream, memory_format=torch.contiguous_format)
    dim = stream.shape[-1]
    kernels.add_norm[(stream.numel() // dim,)](
        stream,
        stream if update is None else update,
        weight,
        weight if bias is None else bias,
        normed,
        epsilon,
        DIM=dim,
        FORM=form,
        HAS_UPDATE=update is not None,
        HAS_BIAS=bias is not None,
        BLOCK_M=next_power_of_2(dim),
    )
    return normed
