"""⑤ Several strategies side by side in one batch, seen from outside as one.

Shapes: N slots, K lanes.
"""

from collections.abc import Sequence

import torch

from model.decoding.search.protocol import Choice, Ending, Search, Step


class MixedSearch:
    """Parts of a batch, each with the strategy its requests ask for.

    Args:
        parts: Strategies, and the slots of the batch that each one serves, in its own order.
        lanes: Width of the batch.
        device: Where the tensors live.
    """

    def __init__(
        self, parts: Sequence[tuple[Search, Sequence[int]]], lanes: int, device: torch.device
    ) -> None:
        self._parts = [(search, list(slots)) for search, slots in parts]
        self._lanes = torch.arange(lanes, device=device)
        self._device = device

    def advance(self, step: Step) -> Choice:
        """See Search."""
        slots, lanes = step.ranking_NKV.shape[:2]
        whole = Choice(
            tokens_NK=torch.empty(slots, lanes, dtype=torch.int64, device=self._device),
            parents_NK=(parents_NK := self._lanes.repeat(slots, 1)),
            log_probs_NK=torch.empty(slots, lanes, device=self._device),
            settled_N=torch.empty(slots, dtype=torch.bool, device=self._device),
        )
        for search, own in self._parts:
            index = torch.tensor(own, dtype=torch.int64, device=self._device)
            choice = search.advance(step.of_slots(index))
            whole.tokens_NK[index] = choice.tokens_NK
            whole.log_probs_NK[index] = choice.log_probs_NK
            whole.settled_N[index] = choice.settled_N
            if choice.parents_NK is not None:
                parents_NK[index] = choice.parents_NK
        return whole

    def endings(self, slots: Sequence[int]) -> list[list[Ending]]:
        """See Search."""
        found: dict[int, list[Ending]] = {}
        for search, own in self._parts:
            asked = [slot for slot in slots if slot in own]
            endings = search.endings([own.index(slot) for slot in asked]) if asked else []
            found.update(zip(asked, endings, strict=True))
        return [found[slot] for slot in slots]

    def contenders(self, slot: int) -> list[tuple[int, int]]:
        """See Search."""
        return next(search.contenders(own.index(slot)) for search, own in self._parts if slot in own)

    def keep(self, slots: Sequence[int]) -> None:
        """See Search; a strategy that serves no slot any more is dropped."""
        parts = []
        for search, own in self._parts:
            kept = [(new, own.index(slot)) for new, slot in enumerate(slots) if slot in own]
            if kept:
                search.keep([old for _, old in kept])
                parts.append((search, [new for new, _ in kept]))
        self._parts = parts
