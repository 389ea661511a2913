"""Devices and precisions by name; what this machine cannot do is refused by name."""

import pytest
import torch

from model import precision
from model.errors import ConfigError
from model.precision import apply_precision, dtype_of, resolve_device, resolve_precision
from model.presets import preset
from model.quantisation import Int8Linear
from model.transformer import Transformer

CPU = torch.device("cpu")


def test_auto_takes_a_gpu_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert resolve_device("auto") == CPU
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert resolve_device("auto").type == "cuda"


@pytest.mark.parametrize("name", ["gpu", "cpu:1", "cuda:x", "", "CUDA"])
def test_an_unknown_device_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="`device` must be one of auto, cpu, cuda"):
        resolve_device(name)


@pytest.mark.parametrize("name", ["cuda", "cuda:7"])
def test_a_missing_gpu_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    with pytest.raises(ConfigError, match=f"no such GPU, but is '{name}'"):
        resolve_device(name)


def test_auto_is_exact_on_a_cpu_and_fast_on_a_gpu() -> None:
    assert resolve_precision("auto", CPU) == "float32"
    assert resolve_precision("auto", torch.device("cuda")) == "bfloat16"


def test_an_unknown_precision_is_refused() -> None:
    with pytest.raises(ConfigError, match="`precision` must be one of auto, float32"):
        resolve_precision("int4", CPU)


def test_int8_is_refused_where_it_does_not_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "int8_works", lambda _: False)
    with pytest.raises(
        ConfigError, match="`precision` must be auto, float32, bfloat16 or float16 on this cpu"
    ):
        resolve_precision("int8", CPU)


def test_types_by_name() -> None:
    assert dtype_of("float16", CPU) == torch.float16
    assert dtype_of("int8", CPU) == torch.float32
    assert dtype_of("int8", torch.device("cuda")) == torch.bfloat16


def test_only_int8_replaces_layers() -> None:
    config = preset(
        "small", source_vocab_size=40, target_vocab_size=40, model_dim=32, num_heads=2, ffn_dim=64
    )
    assert not _has_int8(apply_precision(Transformer(config), "float32"))
    assert _has_int8(apply_precision(Transformer(config), "int8"))


def _has_int8(network: Transformer) -> bool:
    return any(isinstance(module, Int8Linear) for module in network.modules())
