"""Each machine and each wish gets the runner that fits; the native one needs no PyTorch."""

import dataclasses
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import cast, get_args

import pytest

from model.checkpoint.folder import Checkpoint, load_checkpoint
from model.checkpoint.weights import StorageType
from model.decode_request import MAX_BEAM_SIZE, DecodeOptions, DecodeRequest
from model.decoding.factory import (
    GPU_TOKENS_A_ROW,
    MOST_GPU_KV_SLOTS,
    EngineFactory,
    engine_factory,
    gpu_rows,
    torch_factory,
)
from model.decoding.native_runner import NativeRunner
from model.decoding.pytorch.torch_runner import TorchRunner
from model.decoding.runner import Runner
from model.errors import CheckpointError, ConfigError, TextTooLongError
from model.native.binding import ENVIRONMENT
from model.network.transformer import Transformer
from model.text.tokenizer import Tokenizer
from tests.model.native_library import needs_native
from tests.tiny import save_network, tiny_config


@pytest.fixture(scope="module")
def checkpoint(tiny_checkpoint: Path) -> Checkpoint:
    return load_checkpoint(tiny_checkpoint)


@pytest.fixture(params=[pytest.param("auto", marks=needs_native), "off"])
def either_runner(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once with the native library, once without."""
    monkeypatch.setenv(ENVIRONMENT, request.param)


def kind_of(factory: EngineFactory) -> str:
    runner = factory.new_runner(64)
    names = {NativeRunner: "native", TorchRunner: "torch"}
    assert factory.is_native is isinstance(runner, NativeRunner)
    return f"{names[type(runner)]} {factory.device} {factory.precision}"  # type: ignore[index]


@needs_native
@pytest.mark.parametrize("precision", ["auto", "bfloat16"])
def test_a_cpu_computes_natively(
    checkpoint: Checkpoint, precision: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    factory = engine_factory(checkpoint, precision=precision, device="cpu")
    assert kind_of(factory) == f"native cpu {'int8' if precision == 'auto' else precision}"
    (line,) = caplog.messages
    assert line.startswith("decoding natively: dragoman-")


@pytest.mark.usefixtures("either_runner")
@pytest.mark.parametrize("tie", ["none", "all"])
def test_int8_computes_the_same_from_int8_storage(
    tie: str, tiny_tokenizer_folder: Path, tmp_path: Path
) -> None:
    network = Transformer(tiny_config(Tokenizer.load(tiny_tokenizer_folder), tie=tie))
    results, storages = [], get_args(StorageType)
    for storage in (storages[0], storages[-1]):
        save_network(tmp_path / "model", network, tiny_tokenizer_folder, storage=storage)
        engine = engine_factory(load_checkpoint(tmp_path / "model"), device="cpu", precision="int8").make()
        options = DecodeOptions(beam_size=3, max_length=20)
        requests = [DecodeRequest((10 + start, 20, 30 + start, 3), options) for start in range(6)]
        results.append(engine.decode(requests))
    assert results[0] == results[1]


@pytest.mark.usefixtures("either_runner")
def test_a_file_that_changes_while_it_is_loaded_is_refused(folder: Path) -> None:
    loaded = load_checkpoint(folder)
    with (folder / "model.safetensors").open("r+b") as file:
        file.seek(-2, os.SEEK_END)
        file.write(b"??")
    with pytest.raises(CheckpointError, match=r"model\.safetensors was changed after it had been verified"):
        engine_factory(loaded, device="cpu")


_PEAK_OF_LOADING = """
import sys
from model.checkpoint.folder import load_checkpoint
from model.decoding.native_runner import NativeNetwork
from model.native.binding import load_library

def mebibytes(key):
    (line,) = [line for line in open("/proc/self/status") if line.startswith(key)]
    return int(line.split()[1]) / 1024

library, before = load_library(), mebibytes("VmRSS")
checkpoint = load_checkpoint(sys.argv[1])
network = NativeNetwork(checkpoint.config, checkpoint.weights, sys.argv[2], library=library)
print(mebibytes("VmHWM") - before, network.weight_bytes / 2**20)
"""


@needs_native
def test_loading_takes_little_more_memory_than_the_packed_weights(
    tiny_tokenizer_folder: Path, tmp_path: Path
) -> None:
    wide = tiny_config(Tokenizer.load(tiny_tokenizer_folder), model_dim=512, num_heads=8, ffn_dim=2048)
    save_network(tmp_path / "model", Transformer(wide), tiny_tokenizer_folder)
    for precision in ("float32", "int8"):
        command = [sys.executable, "-c", _PEAK_OF_LOADING, str(tmp_path / "model"), precision]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
        peak, weights = map(float, done.stdout.split())
        assert peak <= 1.3 * weights + 8  # a tokenizer and blocks of rows, whatever the size of the network


@needs_native
def test_what_the_library_cannot_compute_goes_to_torch(
    checkpoint: Checkpoint, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    assert kind_of(engine_factory(checkpoint, precision="float16", device="cpu")) == "torch cpu float16"
    (line,) = caplog.messages
    assert line.startswith("decoding with PyTorch, not natively: the native library computes in float32")


@pytest.mark.parametrize("field", ["num_encoder_layers", "num_decoder_layers"])
def test_half_a_network_is_refused_by_name(checkpoint: Checkpoint, field: str) -> None:
    half = dataclasses.replace(checkpoint, config=dataclasses.replace(checkpoint.config, **{field: 0}))
    with pytest.raises(ConfigError, match=f"`{field}` must be at least 1 to translate"):
        engine_factory(half, device="cpu")


@pytest.mark.parametrize(("precision", "expected"), [("auto", "float32"), ("int8", "int8")])
def test_without_the_library_torch_computes(
    checkpoint: Checkpoint,
    precision: str,
    expected: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setenv(ENVIRONMENT, "off")
    assert kind_of(engine_factory(checkpoint, precision=precision, device="cpu")) == f"torch cpu {expected}"
    assert caplog.messages == [f"decoding with PyTorch, not natively: {ENVIRONMENT} is off"]


def test_an_unknown_precision_is_no_reason_to_try_another_runner(checkpoint: Checkpoint) -> None:
    with pytest.raises(ConfigError, match="`precision` must be one of auto"):
        engine_factory(checkpoint, precision="int4", device="cpu")


@pytest.mark.usefixtures("either_runner")
def test_engines_of_one_factory_are_apart_and_agree(checkpoint: Checkpoint) -> None:
    factory = engine_factory(checkpoint, device="cpu")
    first, second = factory.make(), factory.make(max_batch_tokens=5)
    ids = tuple(checkpoint.tokenizer.encode("Thank you.", target_language="fr"))
    asked = DecodeRequest(ids, checkpoint.card.decoding)
    first.add(asked)
    first.step(max_steps=1)
    assert second.is_idle
    (result,) = second.decode([asked])
    first.reset()
    assert first.decode([asked]) == [result]
    assert checkpoint.tokenizer.decode(result[0].token_ids) == "Merci."
    first.close()
    assert second.decode([asked]) == [result]


@pytest.mark.usefixtures("either_runner")
def test_a_budget_of_state_is_kept(checkpoint: Checkpoint) -> None:
    factory = engine_factory(checkpoint, device="cpu")
    config = checkpoint.config
    numbers = 2 * config.model_dim * config.num_decoder_layers
    assert factory.kv_slot_bytes in (2 * numbers, 4 * numbers)
    assert factory.new_runner(50).max_kv_slots == 50
    engine = factory.make(max_kv_slots=50)
    options = DecodeOptions(strategy="greedy", max_length=20)
    engine.add(DecodeRequest((5,) * 10, options))
    assert not engine.fits(DecodeRequest((5,) * 10, options))
    with pytest.raises(TextTooLongError, match="decoder positions"):
        engine.add(DecodeRequest((5,) * 40, options))


@pytest.mark.usefixtures("either_runner")
def test_the_widest_search_of_the_longest_sentence_has_room(checkpoint: Checkpoint) -> None:
    engine = engine_factory(checkpoint, device="cpu").make()
    limit = checkpoint.config.max_positions
    options = DecodeOptions(beam_size=MAX_BEAM_SIZE, max_length=limit)
    sentence = engine.add(DecodeRequest((5,) * limit, options))
    assert sentence.kv_slots == limit * (1 + MAX_BEAM_SIZE)
    assert engine.load > 0


@pytest.mark.parametrize(("free", "kv_slots"), [(2**10, 0), (2**25, 2**25 * 2 // 5), (2**60, 2**18)])
def test_a_gpu_has_the_state_that_its_memory_allows(
    checkpoint: Checkpoint, free: int, kv_slots: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    factory = engine_factory(checkpoint, device="cpu")
    asked: list[int] = []

    def new_runner(max_kv_slots: int) -> Runner:
        asked.append(max_kv_slots)
        return factory.new_runner(100)

    monkeypatch.setattr("model.decoding.factory.free_gpu_memory", lambda device: free)
    dataclasses.replace(factory, device="cuda:1", new_runner=new_runner).make()
    least = checkpoint.config.max_positions * (1 + MAX_BEAM_SIZE)
    affordable = kv_slots if free == 2**60 else kv_slots // factory.kv_slot_bytes
    assert asked == [max(affordable, least)]


def test_rows_fill_a_gpu_before_tokens_do(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("model.decoding.factory.free_gpu_memory", lambda device: 2**30)
    on_gpu = dataclasses.replace(engine_factory(checkpoint, device="cpu"), device="cuda")
    runner = on_gpu.new_runner(1000)
    engine = dataclasses.replace(on_gpu, new_runner=lambda _: runner).make()
    engine.add(DecodeRequest((5,) * 24, DecodeOptions(beam_size=32, max_length=1)))
    assert engine.load == 32 / runner.max_rows > 24 * 32 / (runner.max_rows * GPU_TOKENS_A_ROW)


@pytest.mark.parametrize(
    ("native", "tokens"), [pytest.param("auto", 1024, marks=needs_native), ("off", 4096)]
)
def test_a_batch_is_as_large_as_serves_the_runner(
    checkpoint: Checkpoint, native: str, tokens: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ENVIRONMENT, native)
    engine = engine_factory(checkpoint, device="cpu").make()
    options = DecodeOptions(beam_size=32, max_length=1)
    engine.add(DecodeRequest((5,) * 16, options))
    assert engine.load == 16 * 32 / tokens


def test_a_gpu_gets_recorded_steps(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    class Recorder:
        def __init__(self, network: Transformer, device: str, **bounds: object) -> None:
            self.asked = (device, bounds["max_kv_slots"], bounds["never_produced"])
            self.sizes = (bounds["max_rows"], bounds["widths"])
            self.is_fused = bounds["is_fused"]
            self.is_warm = False

        def warm_up(self) -> None:
            self.is_warm = True

    monkeypatch.setattr("model.decoding.pytorch.static_runner.StaticRunner", Recorder)
    monkeypatch.setattr(
        "model.decoding.pytorch.torch_runner.load_network", lambda checkpoint, *_: checkpoint.network()
    )
    monkeypatch.setattr("model.decoding.pytorch.kernel_check.fuse_steps", lambda network, device: True)
    card = dataclasses.replace(checkpoint.card, decoding=DecodeOptions(beam_size=5))
    factory = torch_factory(dataclasses.replace(checkpoint, card=card), "cuda:1", "bfloat16")
    runner = cast(Recorder, factory.new_runner(2**16))
    assert runner.asked == ("cuda:1", 2**16, checkpoint.tokenizer.target_tag_ids)
    assert runner.sizes == (256, (1, 4, 5))
    assert runner.is_warm
    assert runner.is_fused
    assert not factory.is_native


_WITHOUT_TORCH = """
import sys
from model.translation.translator import Translator

translator = Translator.load(sys.argv[1], device="cpu")
(translation,) = translator.translate(["Thank you."], source="en", target="fr")
assert translation.text == "Merci.", translation.text
assert translator.precision == "int8"
loaded = {"torch", "safetensors.torch", "model.network.transformer"} & set(sys.modules)
assert not loaded, loaded
"""


@needs_native
def test_from_a_folder_to_a_translation_without_torch(tiny_checkpoint: Path) -> None:
    subprocess.run([sys.executable, "-c", _WITHOUT_TORCH, str(tiny_checkpoint)], check=True, timeout=300)


@pytest.mark.parametrize(
    ("kv_slots", "vocab", "rows"),
    [
        (2 * MOST_GPU_KV_SLOTS, 32_000, 1024),
        (MOST_GPU_KV_SLOTS, 32_000, 1024),
        (MOST_GPU_KV_SLOTS - 1, 32_000, 512),
        (MOST_GPU_KV_SLOTS, 256_000, 256),
        (1_000, 32_000, 8),
    ],
)
def test_gpu_rows_are_a_power_of_two_that_state_and_logits_allow(
    kv_slots: int, vocab: int, rows: int
) -> None:
    assert gpu_rows(kv_slots, vocab) == rows
