"""ⓔ Gradients added up over processes, once an update, while the last backward pass is still under way.

Why not DistributedDataParallel: it takes the mean over processes and expects of each of them as many
backward passes, with a gradient for every weight in each. Here an update is a sum over tokens, at the end
of an epoch a process may be without a batch, and dropped layers (`layer_drop`) have no gradient.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

BeginSum = Callable[[Tensor], Callable[[], None]]
"""Begins to add up a tensor over all processes, in place; what it returns waits for the end of that."""

_BUCKET_BYTES = 25 * 2**20
"""Large enough to use the wire well, small enough that most are on their way before the last is known."""


class GradientSum:
    """Of a process alone: its gradients are the sum.

    A weight without a gradient contributes zero, here as among several, where it may well have one on
    another process: an optimiser treats zero (its momentum goes on, weights decay) and none differently.

    Args:
        weights: In the order in which a forward pass uses them.
    """

    def __init__(self, weights: Sequence[Tensor]) -> None:
        self._weights = [weight for weight in weights if weight.requires_grad]

    def begin(self) -> None:
        """The next backward pass is this process' last one of the update."""

    def finish(self) -> None:
        """Wait until every weight's gradient is the sum over all processes."""
        for weight in self._weights:
            if weight.grad is None:
                weight.grad = torch.zeros_like(weight)


class BucketedSum(GradientSum):
    """Of one process among several.

    Gradients are copied into buckets, the last layers' first, as they come out of the backward pass;
    a full bucket is sent off at once, so that adding up overlaps with computing. Buckets leave in one
    fixed order, whatever order gradients come in, so that all processes mean the same one.

    Args:
        weights: In the order in which a forward pass uses them.
        begin_sum: Adds up over all processes.
        bucket_bytes: Size of a bucket.
    """

    def __init__(
        self, weights: Sequence[Tensor], begin_sum: BeginSum, bucket_bytes: int = _BUCKET_BYTES
    ) -> None:
        super().__init__(weights)
        self._begin_sum = begin_sum
        self._buckets = _buckets(self._weights, bucket_bytes)
        self._overlaps = False
        self._next = 0
        for bucket in self._buckets:
            for weight in bucket.weights:
                weight.register_post_accumulate_grad_hook(self._note)
        self._bucket_of = {id(weight): bucket for bucket in self._buckets for weight in bucket.weights}

    def begin(self) -> None:
        """The next backward pass is this process' last one of the update."""
        self._overlaps = True

    def _note(self, weight: Tensor) -> None:
        """A gradient is complete: send off what now is due."""
        if not self._overlaps:
            return
        self._bucket_of[id(weight)].missing -= 1
        while self._next < len(self._buckets) and not self._buckets[self._next].missing:
            self._send_next()

    def _send_next(self) -> None:
        self._buckets[self._next].send(self._begin_sum)
        self._next += 1

    def finish(self) -> None:
        """Wait until every weight's gradient is the sum over all processes."""
        while self._next < len(self._buckets):
            self._send_next()
        for bucket in self._buckets:
            bucket.receive()
        self._overlaps = False
        self._next = 0


class _Bucket:
    """Weights whose gradients travel together.

    Attributes:
        weights: Whose.
        missing: How many gradients are not complete yet.
    """

    def __init__(self, weights: Sequence[Tensor]) -> None:
        self.weights = weights
        self.missing = len(weights)
        self._flat = weights[0].new_empty(sum(weight.numel() for weight in weights), requires_grad=False)
        parts = self._flat.split([weight.numel() for weight in weights])
        self._parts = [part.view_as(weight) for part, weight in zip(parts, weights, strict=True)]
        self._finish: Callable[[], None] | None = None

    @torch.no_grad()
    def send(self, begin_sum: BeginSum) -> None:
        for part, weight in zip(self._parts, self.weights, strict=True):
            if weight.grad is None:
                part.zero_()
            else:
                part.copy_(weight.grad)
        self._finish = begin_sum(self._flat)

    def receive(self) -> None:
        if self._finish is not None:
            self._finish()
        for part, weight in zip(self._parts, self.weights, strict=True):
            weight.grad = part
        self.missing = len(self.weights)


def _buckets(weights: Sequence[Tensor], bucket_bytes: int) -> list[_Bucket]:
    """The last weights first: their gradients are known first."""
    groups: list[list[Tensor]] = []
    room = 0
    for weight in reversed(weights):
        if weight.nbytes > room:
            groups.append([])
            room = bucket_bytes
        groups[-1].append(weight)
        room -= weight.nbytes
    return [_Bucket(group) for group in groups]
