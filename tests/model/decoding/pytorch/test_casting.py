"""What a precision makes of a network."""

import pytest
import torch

from model.decoding.pytorch import device_memory
from model.decoding.pytorch.device_memory import apply_precision, dtype_of
from model.errors import ConfigError
from model.network.quantisation import Int8Linear
from model.network.transformer import Transformer
from model.presets import preset

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
