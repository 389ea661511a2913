import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch

from model.decoding import device
from model.decoding.device import available_cores, every_device, gpu_memory, resolve_device, resolve_precision
from model.errors import ConfigError


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine that has a driver and two GPUs."""
    monkeypatch.setattr(device, "_DRIVERS", (Path("/"),))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    return monkeypatch


def test_auto_takes_a_gpu_where_there_is_one(gpus: pytest.MonkeyPatch) -> None:
    assert resolve_device("auto") == "cuda"
    gpus.setattr(torch.cuda, "is_available", lambda: False)
    assert resolve_device("auto") == "cpu"


def test_a_driver_without_a_gpu_is_none(gpus: pytest.MonkeyPatch) -> None:
    gpus.setattr(device, "_DRIVERS", (Path("/no/such/driver"),))
    assert resolve_device("auto") == "cpu"
    with pytest.raises(ConfigError, match="no such GPU"):
        resolve_device("cuda")


def test_without_a_driver_torch_is_not_asked() -> None:
    code = (
        "import sys; from pathlib import Path; from model.decoding import device\n"
        "assert device.gpu_memory() == {}\n"
        "device._DRIVERS = (Path('/no/such/driver'),)\n"
        "sys.exit(device.resolve_device('auto') != 'cpu' or 'torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


@pytest.mark.parametrize("name", ["gpu", "cpu:1", "cuda:x", "cuda:", "CUDA"])
def test_an_unknown_device_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="`device` must be one of auto, cpu, cuda"):
        resolve_device(name)


def test_a_gpu_is_taken_by_its_number(gpus: pytest.MonkeyPatch) -> None:
    assert [resolve_device(name) for name in ("cuda", "cuda:1", "cpu")] == ["cuda", "cuda:1", "cpu"]
    with pytest.raises(ConfigError, match="no such GPU, but is 'cuda:2'"):
        resolve_device("cuda:2")


def test_auto_is_what_serves_best_there() -> None:
    assert resolve_precision("auto", "cpu", is_native=True) == "int8"
    assert resolve_precision("auto", "cpu", is_native=False) == "float32"
    assert resolve_precision("float16", "cpu", is_native=True) == "float16"


@pytest.mark.parametrize(("is_native", "precision"), [(True, "bfloat16"), (False, "float16")])
def test_a_gpu_computes_in_bfloat16_only_where_that_is_native(
    is_native: bool, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    monkeypatch.setattr(torch.cuda, "device", lambda name: nullcontext(asked.append(name)))
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: is_native)
    assert resolve_precision("auto", "cuda:1", is_native=False) == precision
    assert asked == ["cuda:1"]


def test_all_gpus_share_the_work_of_cuda(gpus: pytest.MonkeyPatch) -> None:
    assert every_device("cuda") == ("cuda:0", "cuda:1")
    assert every_device("cuda:1") == ("cuda:1",)
    assert every_device("cpu") == ("cpu",)
    gpus.setattr(torch.cuda, "device_count", lambda: 1)
    assert every_device("cuda") == ("cuda",)


def test_an_unknown_precision_is_refused() -> None:
    with pytest.raises(ConfigError, match="`precision` must be one of auto, float32"):
        resolve_precision("int4", "cpu", is_native=True)


CORES = len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("quota", "expected"),
    [
        ("max 100000\n", CORES),
        ("100000 100000\n", 1),
        ("50000 100000\n", 1),
        (f"{(CORES + 3) * 100000} 100000\n", CORES),
        ("strange", CORES),
    ],
)
def test_a_containers_quota_counts(tmp_path: Path, quota: str, expected: int) -> None:
    path = tmp_path / "cpu.max"
    path.write_text(quota)
    assert available_cores(path) == expected


def test_without_a_quota_the_process_may_use_what_it_runs_on(tmp_path: Path) -> None:
    assert available_cores(tmp_path / "missing") == CORES


def test_all_devices_are_summed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Properties:
        total_memory = 100

    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 10 + device)
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 20 + device)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: Properties)
    assert gpu_memory() == {"allocated": 21, "reserved": 41, "total": 200}
