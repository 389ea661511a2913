from pathlib import Path

import pytest
import torch

from model.checkpoint.folder import load_checkpoint
from model.decoding.pytorch import loading
from model.decoding.pytorch.loading import apply_precision, dtype_of, load_network
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
    monkeypatch.setattr(loading, "int8_works", lambda _: False)
    with pytest.raises(
        ConfigError, match="`precision` must be auto, float32, bfloat16 or float16 on this cpu"
    ):
        apply_precision(Transformer(CONFIG), "int8")


def test_a_network_is_loaded_after_the_attention_kernels_are_chosen(
    tiny_checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen: list[object] = []
    monkeypatch.setattr(loading, "choose_attention_kernels", chosen.append)
    load_network(load_checkpoint(tiny_checkpoint), "cpu", "float32")
    assert chosen == ["cpu"]


def _has_int8(network: Transformer) -> bool:
    return any(isinstance(module, Int8Linear) for module in network.modules())
