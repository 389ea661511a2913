"""Accelerator memory is told only by those that have used an accelerator."""

import subprocess
import sys

import pytest
import torch

from model.decoding.device import gpu_memory


def test_without_torch_there_is_none_and_torch_is_not_loaded() -> None:
    code = (
        "import sys; from model.decoding.device import gpu_memory\n"
        "sys.exit(gpu_memory() != {} or 'torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


def test_all_devices_are_summed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Properties:
        total_memory = 100

    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 10 + device)
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 20 + device)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: Properties)
    assert gpu_memory() == {"allocated": 21, "reserved": 41, "total": 200}


def test_before_anything_was_put_there_it_is_empty() -> None:
    assert torch.cuda.is_initialized() or gpu_memory() == {}
