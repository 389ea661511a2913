"""However PyTorch says that memory is short, runners say MemoryError; a lost device is told from a fault."""

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial

import pytest
import torch

from model.decoding.engine import DecodingEngine
from model.decoding.pytorch.device_use import require_device, to_device, using
from model.decoding.pytorch.static_runner import StaticRunner
from model.decoding.pytorch.torch_runner import TorchRunner
from model.decoding.runner import Runner
from model.errors import DeviceLostError
from model.network.transformer import Transformer
from tests.model.decoding.comparison import assert_same
from tests.model.decoding.networks import lively_network, request, sentences
from tests.model.decoding.reference import ReferenceDecoder

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


@pytest.fixture(autouse=True)
def entered(monkeypatch: pytest.MonkeyPatch) -> list[torch.device]:
    """The devices that a thread has made its own."""
    found: list[torch.device] = []
    monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext(found.append(device)))
    return found


def test_a_thread_uses_the_device_that_it_was_given(entered: list[torch.device]) -> None:
    """PyTorch finds the device of an operation by its tensors, Triton by the thread."""
    for device in (CPU, torch.device("cuda", 1)):
        with using(device):
            pass
    assert entered == [torch.device("cuda", 1)]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_gets_what_the_host_has_and_what_it_has_itself() -> None:
    gpu = torch.device("cuda")
    there = to_device([1, 2], gpu)
    assert there.is_cuda
    assert to_device(there, gpu).tolist() == [1, 2]


def test_a_cpu_without_memory() -> None:
    with pytest.raises(MemoryError, match="can't allocate memory"), using(CPU):
        torch.empty(2**50)


def test_a_gpu_without_memory_gives_back_what_it_keeps(monkeypatch: pytest.MonkeyPatch) -> None:
    emptied: list[bool] = []
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: emptied.append(True))
    with pytest.raises(MemoryError, match=r"^CUDA out of memory$"), using(CUDA):
        raise torch.OutOfMemoryError("CUDA out of memory\nand pages of statistics")
    assert emptied == [True]


def test_what_only_follows_from_it_counts_as_well() -> None:
    def record() -> None:
        try:
            raise torch.OutOfMemoryError("CUDA out of memory")
        finally:
            raise RuntimeError("operation failed due to a previous error during capture")

    with pytest.raises(MemoryError, match="during capture"), using(CPU):
        record()


def test_what_had_been_computed_is_let_go_of_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the cache would have nothing to give back."""
    alive: list[bool] = []

    class Tensor:
        def __del__(self) -> None:
            alive.clear()

    def compute() -> None:
        kept = Tensor()
        alive.append(True)
        raise torch.OutOfMemoryError(f"with {type(kept).__name__}")

    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: alive.append(False) if alive else None)
    with pytest.raises(MemoryError), using(CUDA):
        compute()
    assert alive == []


def test_any_other_fault_stays_what_it_is() -> None:
    with pytest.raises(RuntimeError, match="mat1 and mat2"), using(CPU):
        torch.zeros(2, 3) @ torch.zeros(2, 3)


@pytest.mark.parametrize(
    "new_runner",
    [
        partial(TorchRunner, max_rows=16),
        partial(StaticRunner, device="cpu", max_rows=16, widths=(1, 4), capacity=16),
    ],
)
@pytest.mark.parametrize("part", ["encode", "decode_step"])
def test_a_runner_that_found_no_memory_can_be_used_again(
    new_runner: Callable[[Transformer], Runner], part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = lively_network()
    engine = DecodingEngine(new_runner(network), network.config)
    asked = [request(source) for source in sentences(5, 3, 6)]

    def refuse(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    with monkeypatch.context() as broken:
        broken.setattr(network, part, refuse)
        with pytest.raises(MemoryError):
            engine.decode(asked)
    for one, result in zip(asked, engine.decode(asked), strict=True):
        assert_same(result, ReferenceDecoder(network).decode(one))


def test_an_error_that_a_device_repeats_means_that_it_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(device: object) -> None:
        raise torch.AcceleratorError("CUDA error: an illegal memory access was encountered")

    fault = torch.AcceleratorError("CUDA error: device-side assert triggered\nfrom a kernel")
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: None)
    with pytest.raises(torch.AcceleratorError, match="device-side"), using(CUDA):
        raise fault
    monkeypatch.setattr(torch.cuda, "synchronize", answer)
    require_device(CUDA, RuntimeError("mat1 and mat2"))
    with pytest.raises(
        DeviceLostError, match=r"^cuda answers no more, .*: CUDA error: device-side assert triggered$"
    ):
        require_device(CUDA, fault)
    with pytest.raises(DeviceLostError), using(CUDA):
        raise fault
