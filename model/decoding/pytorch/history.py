"""⑤ The tokens that each hypothesis holds, and where its past agrees with its end.

Kept only while some sentence's options look at them.

Shapes: N slots, K lanes, C positions.
"""

import torch
from torch import Tensor

from model.columns import Columns
from model.decoding.pytorch.scoring import take_lanes


class History(Columns):
    """Moves with the beams, unlike the trace.

    Args:
        slots: Rows to begin with.
        lanes: K.
        capacity: Most target positions.
        pad_id: Stands where nothing was produced yet; is never produced itself.
        device: Where the tensors live.
    """

    def __init__(self, slots: int, lanes: int, capacity: int, pad_id: int, device: torch.device) -> None:
        shape = (slots, lanes, capacity)
        self._pad_id = pad_id
        self._tokens_NKC = torch.zeros(shape, dtype=torch.int64, device=device)
        self._agreement_NKC = torch.zeros(shape, dtype=torch.int64, device=device)

    def seat(self, slots_N: Tensor) -> None:
        """Let new sentences begin in these slots."""
        self._tokens_NKC.index_fill_(0, slots_N, self._pad_id)
        self._agreement_NKC.index_fill_(0, slots_N, 0)

    def tokens(self, slots: int) -> Tensor:
        """Of the first slots, (N, K, C)."""
        return self._tokens_NKC[:slots]

    def agreement(self, slots: int) -> Tensor:
        """How many tokens before place c are the same as the last ones of all, (N, K, C)."""
        return self._agreement_NKC[:slots]

    def record(self, positions_N: Tensor, tokens_NK: Tensor, parents_NK: Tensor | None) -> None:
        """Add one token to every lane.

        Two ends of the past agree in one token more than before the step if their last tokens are
        the same, and in none otherwise.
        """
        tokens_NKC, agreement_NKC = self.tokens(len(positions_N)), self.agreement(len(positions_N))
        if parents_NK is not None:
            tokens_NKC.copy_(take_lanes(tokens_NKC, parents_NK))
            agreement_NKC.copy_(take_lanes(agreement_NKC, parents_NK))
        is_same_NKC = tokens_NKC[..., :-1] == tokens_NK[..., None]
        agreement_NKC[..., 1:] = (agreement_NKC[..., :-1] + 1).masked_fill(~is_same_NKC, 0)
        at_NK1 = positions_N[:, None, None].expand(*tokens_NK.shape, 1)
        tokens_NKC.scatter_(2, at_NK1, tokens_NK[..., None])
