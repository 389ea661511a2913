from pathlib import Path

import pytest
import torch

from model.checkpoint.folder import load_checkpoint
from model.decoding.pytorch import device_memory
from model.decoding.pytorch.device_memory import apply_precision, dtype_of, load_network, to_device
from model.errors import ConfigError
from model.network.quantisation import Int8Linear
from model.network.transformer import Transformer
from model.presets import preset


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


def test_a_network_is_loaded_after_the_attention_kernels_are_chosen(
    tiny_checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen: list[object] = []
    monkeypatch.setattr(device_memory, "choose_attention_kernels", chosen.append)
    load_network(load_checkpoint(tiny_checkpoint), "cpu", "float32")
    assert chosen == ["cpu"]


def _has_int8(network: Transformer) -> bool:
    return any(isinstance(module, Int8Linear) for module in network.modules())
