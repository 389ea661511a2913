"""How order enters the network: sinusoids, rotations and bucketed distances, as pure functions.

Shapes: T positions, M model dim, D head dim, H heads.
"""

import math

import torch
from torch import Tensor


def sinusoids(
    positions_T: Tensor,
    model_dim: int,
    *,
    base: float = 10000.0,
    halves: bool = False,
    endpoint: bool = False,
) -> Tensor:
    """Position vectors of Vaswani et al. 2017, section 3.5.

    PE[p, 2i] = sin(p / base^(2i/M)), PE[p, 2i+1] = cos(p / base^(2i/M)).

    Args:
        positions_T: Positions from 0, of any length, also beyond those seen in training.
        model_dim: M, even.
        base: n in the formula.
        halves: Put all sines first and all cosines after them, as Marian does.
        endpoint: Use M − 2 in place of M in the exponent, so that the last frequency is 1/base.

    Returns:
        Shape (T, M), float32.
    """
    pairs = torch.arange(0, model_dim, 2, dtype=torch.float32, device=positions_T.device)
    last = model_dim - 2 if endpoint else model_dim
    angles = positions_T.float()[:, None] * torch.exp(pairs * (-math.log(base) / last))
    both = torch.cat if halves else _interleave
    return both([angles.sin(), angles.cos()], -1)


def _interleave(columns: list[Tensor], dim: int) -> Tensor:
    return torch.stack(columns, dim).flatten(-2)


def rotations(positions_T: Tensor, head_dim: int) -> Tensor:
    """Cosine and sine of each position's rotation angles (RoPE, https://arxiv.org/abs/2104.09864).

    Returns:
        Shape (2, T, D/2), float32: cosines, then sines.
    """
    pairs = torch.arange(0, head_dim, 2, dtype=torch.float32, device=positions_T.device)
    angles = positions_T.float()[:, None] * 10000.0 ** (-pairs / head_dim)
    return torch.stack([angles.cos(), angles.sin()])


def rotate(states_xTD: Tensor, rotations_2TD: Tensor) -> Tensor:
    """Rotate each pair of adjacent features by the angle of its position; keeps shape and dtype."""
    cosine, sine = rotations_2TD
    even, odd = states_xTD.float().unflatten(-1, (-1, 2)).unbind(-1)
    turned = torch.stack([even * cosine - odd * sine, even * sine + odd * cosine], -1)
    return turned.flatten(-2).type_as(states_xTD)


def relative_bucket(distance: Tensor, *, buckets: int, max_distance: int, bidirectional: bool) -> Tensor:
    """Bucket of each distance (key position − query position), as in T5.

    Half of the buckets are exact small distances; the others grow logarithmically up to
    `max_distance`, beyond which all distances share the last (https://arxiv.org/abs/1910.10683).

    Args:
        distance: Integers of any shape.
        buckets: How many buckets there are.
        max_distance: Distance at which the last bucket begins.
        bidirectional: Whether keys after the query get buckets of their own; if not, they share
            bucket 0 (causal attention never sees them).

    Returns:
        Same shape, int64, in [0, buckets).
    """
    if bidirectional:
        buckets //= 2
        offset = (distance > 0).long() * buckets
        reach = distance.abs()
    else:
        offset = torch.zeros_like(distance)
        reach = (-distance).clamp(min=0)
    exact = buckets // 2
    growth = torch.log(reach.float().clamp(min=1) / exact) / math.log(max_distance / exact)
    far = (exact + (growth * (buckets - exact)).long()).clamp(max=buckets - 1)
    return offset + torch.where(reach < exact, reach, far)
