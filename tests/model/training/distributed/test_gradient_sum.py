from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from model.training.distributed.gradient_sum import BucketedSum, GradientSum


class Doubling:
    """Stands for another process with the same gradients: the sum is twice as much."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.waiting = 0

    def begin(self, tensor: Tensor) -> Callable[[], None]:
        self.sizes.append(tensor.numel())
        self.waiting += 1

        def finish() -> None:
            tensor.mul_(2)
            self.waiting -= 1

        return finish


def layers() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 5), nn.Linear(5, 2))


def expected_gradients(batches: int) -> list[Tensor]:
    network = layers()
    for batch in range(batches):
        network(torch.full((2, 3), batch + 1.0)).sum().backward()
    return [2 * weight.grad for weight in network.parameters() if weight.grad is not None]


@pytest.mark.parametrize("bucket_bytes", [4, 100, 10_000])
def test_every_gradient_is_summed_once_after_the_last_batch(bucket_bytes: int) -> None:
    network, others = layers(), Doubling()
    summing = BucketedSum(list(network.parameters()), others.begin, bucket_bytes)
    for _ in range(2):  # updates
        network.zero_grad(set_to_none=True)
        others.sizes.clear()
        for batch in range(3):
            assert others.sizes == [], "nothing is sent before the last batch"
            if batch == 2:
                summing.begin()
            network(torch.full((2, 3), batch + 1.0)).sum().backward()
        assert others.sizes, "sending begins before the backward pass is over"
        summing.finish()
        assert sum(others.sizes) == sum(weight.numel() for weight in network.parameters())
        assert others.waiting == 0
        for weight, expected in zip(network.parameters(), expected_gradients(3), strict=True):
            torch.testing.assert_close(weight.grad, expected)


def test_buckets_leave_in_one_order_whichever_gradients_there_are() -> None:
    """A process without a batch, one with a dropped layer and one with all send the same sizes in turn."""
    sizes = []
    for used in ([], [0, 2], [0, 1, 2]):
        network = nn.ModuleList([nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False), nn.Linear(3, 1)])
        others = Doubling()
        summing = BucketedSum(list(network.parameters()), others.begin, bucket_bytes=1)
        summing.begin()
        states = torch.ones(1, 3)
        for place in used:
            states = network[place](states)
        if used:
            states.sum().backward()
        summing.finish()
        sizes.append(others.sizes)
        unused = [weight for place in {0, 1, 2}.difference(used) for weight in network[place].parameters()]
        assert all(weight.grad is not None and not weight.grad.any() for weight in unused)
    assert sizes == [[1, 3, 9, 9]] * 3


def test_a_weight_that_is_used_twice_is_sent_once() -> None:
    layer, others = nn.Linear(3, 3, bias=False), Doubling()
    summing = BucketedSum(list(layer.parameters()), others.begin)
    summing.begin()
    layer(layer(torch.ones(1, 3))).sum().backward()
    summing.finish()
    assert others.sizes == [9]


def test_a_compiled_network_is_summed_too() -> None:
    network, others = layers(), Doubling()
    summing = BucketedSum(list(network.parameters()), others.begin)
    compiled = torch.compile(network, backend="aot_eager")
    summing.begin()
    compiled(torch.ones(2, 3)).sum().backward()
    summing.finish()
    for weight, expected in zip(network.parameters(), expected_gradients(1), strict=True):
        torch.testing.assert_close(weight.grad, expected)


def test_alone_nothing_is_touched_but_what_is_missing_is_zero() -> None:
    used, dropped = nn.Linear(2, 2, bias=False), nn.Linear(3, 2, bias=False)
    used(torch.ones(1, 2)).sum().backward()
    assert used.weight.grad is not None
    before = used.weight.grad.clone()
    alone = GradientSum([used.weight, dropped.weight, nn.Parameter(torch.ones(1), requires_grad=False)])
    alone.begin()
    alone.finish()
    assert torch.equal(used.weight.grad, before)
    assert dropped.weight.grad is not None
    assert torch.equal(dropped.weight.grad, torch.zeros(2, 3))
