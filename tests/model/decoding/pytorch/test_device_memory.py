"""However PyTorch says that there is no memory, runners say MemoryError, and go on afterwards."""

from collections.abc import Callable
from functools import partial

import pytest
import torch

from model.decoding.engine import DecodingEngine
from model.decoding.pytorch import device_memory
from model.decoding.pytorch.device_memory import apply_precision, dtype_of, memory_errors, to_device
from model.decoding.pytorch.static_runner import StaticRunner
from model.decoding.pytorch.torch_runner import TorchRunner
from model.decoding.runner import Runner
from model.errors import ConfigError
from model.network.quantisation import Int8Linear
from model.network.transformer import Transformer
from model.presets import preset
from tests.model.decoding.comparison import assert_same
from tests.model.decoding.networks import lively_network, request, sentences
from tests.model.decoding.reference import ReferenceDecoder

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


def test_a_cpu_without_memory() -> None:
    with pytest.raises(MemoryError, match="can't allocate memory"), memory_errors(CPU):
        torch.empty(2**50)


def test_a_gpu_without_memory_gives_back_what_it_keeps(monkeypatch: pytest.MonkeyPatch) -> None:
    emptied: list[bool] = []
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: emptied.append(True))
    with pytest.raises(MemoryError, match=r"^CUDA out of memory$"), memory_errors(CUDA):
        raise torch.OutOfMemoryError("CUDA out of memory\nand pages of statistics")
    assert emptied == [True]


def test_what_only_follows_from_it_counts_as_well() -> None:
    def record() -> None:
        try:
            raise torch.OutOfMemoryError("CUDA out of memory")
        finally:
            raise RuntimeError("operation failed due to a previous error during capture")

    with pytest.raises(MemoryError, match="during capture"), memory_errors(CPU):
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
    with pytest.raises(MemoryError), memory_errors(CUDA):
        compute()
    assert alive == []


def test_any_other_fault_stays_what_it_is() -> None:
    with pytest.raises(RuntimeError, match="mat1 and mat2"), memory_errors(CPU):
        torch.zeros(2, 3) @ torch.zeros(2, 3)


@pytest.mark.parametrize(
    "new_runner", [partial(TorchRunner, max_rows=16), partial(StaticRunner, device="cpu", max_rows=16)]
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


def test_numbers_and_tensors_arrive_as_they_are() -> None:
    cpu = torch.device("cpu")
    assert to_device([1, 2**40], cpu).tolist() == [1, 2**40]
    assert to_device([], cpu).dtype == torch.int64
    assert to_device(torch.tensor([0.5]), cpu).tolist() == [0.5]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_gets_what_the_host_has_and_what_it_has_itself() -> None:
    gpu = torch.device("cuda")
    there = to_device([1, 2], gpu)
    assert there.is_cuda
    assert to_device(there, gpu).tolist() == [1, 2]


CONFIG = preset("small", source_vocab_size=40, target_vocab_size=40, model_dim=32, num_heads=2, ffn_dim=64)


def test_types_by_name() -> None:
    assert dtype_of("float16", "cpu") == torch.float16
    assert dtype_of("int8", "cpu") == torch.float32
    assert dtype_of("int8", "cuda:1") == torch.bfloat16


def test_only_int8_replaces_layers() -> None:
    assert not _has_int8(apply_precision(Transformer(CONFIG), "float32"))
    assert _has_int8(apply_precision(Transformer(CONFIG), "int8"))


def test_int8_is_refused_where_it_does_not_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_memory, "int8_works", lambda _: False)
    with pytest.raises(
        ConfigError, match="`precision` must be auto, float32, bfloat16 or float16 on this cpu"
    ):
        apply_precision(Transformer(CONFIG), "int8")


def _has_int8(network: Transformer) -> bool:
    return any(isinstance(module, Int8Linear) for module in network.modules())
