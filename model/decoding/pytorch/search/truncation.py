"""⑤ Temperature, and the limits that cut the tail of a distribution, each slot by its own options.

Every limit is a threshold on the weight of a token; tokens as likely as the last one kept are kept
too. Top-k comes first, top-p counts the probability that it left, min-p is a share of the likeliest
token's.

Shapes: N slots, K lanes, V vocabulary, R ranks that are looked at.
"""

import torch
from torch import Tensor

from model.decoding.pytorch.slot_options import OptionRows


def truncated_weights(scores_NKV: Tensor, options: OptionRows, ranks: int) -> Tensor:
    """Probabilities up to a factor (the likeliest token has 1), 0 where cut off, (N, K, V).

    Args:
        scores_NKV: Log-probabilities; a constant more or less in a row changes nothing.
        options: Of the N slots.
        ranks: How many tokens must be put in order; see Demands.
    """
    shifted_NKV = scores_NKV - scores_NKV.amax(2, keepdim=True)
    weights_NKV = (shifted_NKV / options.temperature_N[:, None, None]).exp()
    threshold_NK1 = options.min_p_N[:, None, None].expand(*weights_NKV.shape[:2], 1)
    if ranks:
        least_NK1 = _least_kept(weights_NKV, options, min(ranks, weights_NKV.shape[2]))
        threshold_NK1 = torch.maximum(threshold_NK1, least_NK1)
    return weights_NKV.masked_fill(weights_NKV < threshold_NK1, 0.0)


def _least_kept(weights_NKV: Tensor, options: OptionRows, size: int) -> Tensor:
    """The smallest weight that top-k and top-p both keep, (N, K, 1); 0 where neither cuts."""
    ordered_NKR = weights_NKV.topk(size, 2).values
    ranks_R = torch.arange(size, device=ordered_NKR.device)
    top_k_N11 = torch.where(options.top_k_N > 0, options.top_k_N, size)[:, None, None]
    ordered_NKR = ordered_NKR.masked_fill(ranks_R >= top_k_N11, 0.0)
    cumulated_NKR = ordered_NKR.cumsum(2)
    enough_NK1 = cumulated_NKR[:, :, -1:] * options.top_p_N[:, None, None]
    is_kept_NKR = (cumulated_NKR - ordered_NKR < enough_NK1) & (ordered_NKR > 0)
    least_NK1 = ordered_NKR.masked_fill(~is_kept_NKR, torch.inf).amin(2, keepdim=True)
    cuts_N11 = ((options.top_k_N > 0) | (options.top_p_N < 1))[:, None, None]
    return least_NK1.masked_fill(~cuts_N11, 0.0)
