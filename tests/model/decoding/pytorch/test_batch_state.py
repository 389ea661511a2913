"""What a step must be for a CUDA graph to hold it: shown on PyTorch's `meta` device, which has no numbers.

There, reading a number on the host, a shape that depends on one, and a tensor of another device fail.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import product

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from model.decoding.pytorch.batch_state import Grid
from model.decoding.pytorch.kv_allocator import FixedState
from model.decoding.pytorch.slot_options import ALL_RANKS, Demands
from model.network.decoder_state import Extent
from model.network.transformer import Transformer
from tests.model.decoding.networks import lively_network
from tests.model.decoding.slots import admitted
from tests.model.tiny_networks import tiny_network

EVERYTHING = Demands(
    beams=True,
    lanes=True,
    samples=True,
    ranks=ALL_RANKS,
    prefixes=True,
    suppressed=True,
    lengths=True,
    ngrams=True,
    repetition=True,
    coverage=True,
)
DEMANDS = [
    Demands(lanes=True),
    Demands(beams=True),
    Demands(lanes=True, samples=True, ranks=8),
    EVERYTHING,
]
EXTENT = Extent(3, 8, 8)


def grid_of(network: Transformer, lanes: int) -> Grid:
    state = FixedState(network, network.position_tables(16), slots=4, lanes=lanes, capacity=16)
    return Grid(network, state)


class Copies(TorchDispatchMode):
    """Counts what a recording does not allow: numbers that come from the host, or go there."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def __torch_dispatch__(
        self,
        func: Callable[..., object],
        types: Sequence[type],
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        if any(word in str(func) for word in ("lift_fresh", "_local_scalar_dense", "nonzero", "_pin_memory")):
            self.found.append(str(func))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(("lanes", "demands"), list(product([1, 4], DEMANDS)))
@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "relative", "rotary"])
@torch.inference_mode()
def test_a_step_takes_no_decision_on_the_host(positions: str, lanes: int, demands: Demands) -> None:
    network = tiny_network(positions=positions).to(device="meta", dtype=torch.bfloat16)
    grid = grid_of(network, lanes)
    with Copies() as copies:
        grid.compute(EXTENT, demands)
    assert copies.found == []


def addresses(grid: Grid) -> dict[str, int]:
    return {f"{i} {name}": column.data_ptr() for i, (name, column) in enumerate(grid.columns())}


@pytest.mark.parametrize("lanes", [1, 4])
@torch.inference_mode()
def test_nothing_moves_between_steps(lanes: int) -> None:
    network = lively_network()
    grid = grid_of(network, lanes)
    before = addresses(grid)
    sentence = admitted(length=5, beam_size=lanes)
    memory = network.encode(torch.tensor([sentence.request.source_ids]))
    slot, state = torch.tensor([1]), grid.state
    grid.seat(slot, [sentence], memory, state.own_NKC[slot], state.source_NS[slot])
    for _ in range(3):
        grid.compute(EXTENT, EVERYTHING)
    assert addresses(grid) == before
    assert len(before) > 15


def test_the_counter_of_copies_finds_them() -> None:
    with Copies() as copies:
        torch.tensor([1, 2])[torch.tensor([True, False])].sum().item()
    assert {name.split(".")[1] for name in copies.found} >= {"lift_fresh", "_local_scalar_dense"}


def every_bucket() -> Iterator[Extent]:
    return (Extent(slots, length, length) for slots, length in product((1, 4), (8, 16)))


@torch.inference_mode()
def test_larger_buckets_choose_the_same_tokens() -> None:
    """Slots and positions that only fill a bucket change nothing."""
    network = lively_network()
    chosen: list[list[Tensor]] = []
    for extent in every_bucket():
        grid = grid_of(network, 4)
        sentence = admitted(length=6, beam_size=4, min_length=5)
        memory = network.encode(torch.tensor([sentence.request.source_ids]))
        slot, state = torch.tensor([0]), grid.state
        grid.seat(slot, [sentence], memory, state.own_NKC[slot], state.source_NS[slot])
        for _ in range(5):
            grid.compute(extent, EVERYTHING)
        record, trace = grid.records(slot, 5)
        chosen.append([torch.tensor(record), torch.tensor(trace)])
    for record, trace in chosen[1:]:
        assert torch.allclose(record, chosen[0][0], atol=1e-5, equal_nan=True)
        assert torch.allclose(trace, chosen[0][1], atol=1e-5)
