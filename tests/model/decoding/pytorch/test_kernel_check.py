"""What the kernels compute against what PyTorch does, by Triton's interpreter, and their compilation."""

import os
import subprocess
import sys

import pytest
import torch

from model.decoding.pytorch import kernel_check
from model.decoding.pytorch.kernel_check import Sizes, fuse_steps, kernels_work, require_agreement
from tests.model.decoding.networks import lively_network

CPU = torch.device("cpu")
SIZES = (
    Sizes(),
    Sizes(width=2, heads=2, head_dim=8, capacity=3, lengths=(2,), source_lengths=(3,)),
    Sizes(width=1, heads=1, head_dim=8, capacity=65, lengths=(64, 64), source_lengths=(65, 64)),
)


@pytest.fixture
def triton() -> None:
    pytest.importorskip("triton", reason="needs the package triton")


@pytest.mark.usefixtures("triton")
@pytest.mark.parametrize("sizes", SIZES, ids=["odd", "one-slot", "full"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_kernels_compute_what_pytorch_does(
    dtype: torch.dtype, sizes: Sizes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The interpreter takes seconds for searches: translations are short, and of odd sizes only."""
    monkeypatch.setattr(kernel_check, "_LONGEST", 5)
    if sizes != Sizes():
        monkeypatch.setattr(kernel_check, "_searches", lambda *_: ())
    require_agreement(CPU, dtype, sizes)


_COMPILE = """
import torch
from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from triton.runtime.jit import JITFunction
from model.decoding.pytorch.kernel_check import Sizes, cases

class Driver:
    get_current_target = staticmethod(lambda: GPUTarget("cuda", 90, 32))
    get_current_device = get_current_stream = staticmethod(lambda *_: 0)

compiled, launch = set(), JITFunction.run

def compile_only(function, *given, warmup, **named):
    kernel = launch(function, *given, warmup=True, **named)  # as for a launch, by the arguments' alignment
    assert kernel.name == function.__name__ and kernel.asm["cubin"]
    compiled.add(kernel.hash)
    for tensor in filter(torch.is_tensor, given):
        tensor.zero_()  # what PyTorch computes with must be numbers

driver.set_active(Driver())
JITFunction.run = compile_only
slots = {"lengths": (23,) * 16, "source_lengths": (24,) * 16}
base = Sizes(width=4, heads=8, head_dim=64, capacity=256, vocabulary=32_000, **slots)
for dtype, sizes in ((torch.float32, Sizes()), (torch.bfloat16, base)):
    with torch.inference_mode():
        for compute in cases(torch.device("cpu"), dtype, sizes).values():
            compute(True)
print(len(compiled))
"""


@pytest.mark.usefixtures("triton")
def test_kernels_compile_for_a_gpu_of_compute_capability_9(cache: pytest.Cache) -> None:
    """The compiler accepts less than the interpreter, and needs no GPU; odd sizes, and those of `base`.

    Triton keeps what it has compiled by the hash of the source, the options and itself, so that later runs
    compile only kernels that have changed.
    """
    environment = {**os.environ, "TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(cache.mkdir("triton"))}
    command = [sys.executable, "-c", _COMPILE]
    outcome = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert outcome.returncode == 0, outcome.stderr
    assert int(outcome.stdout) > 30


def test_without_a_gpu_pytorch_computes(caplog: pytest.LogCaptureFixture) -> None:
    network = lively_network()
    assert not fuse_steps(network, CPU)
    assert network.decoder.joined_sources is None
    assert caplog.messages == []


def test_kernels_that_cannot_run_are_said_once_and_not_used(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("Failed to find C compiler")

    monkeypatch.setattr(kernel_check, "require_agreement", fail)
    kernels_work.cache_clear()
    assert not any(kernels_work(torch.device("cuda", 3)) for _ in range(2))
    (message,) = caplog.messages
    assert message == "decoder steps on cuda:3 use no Triton kernels: RuntimeError: Failed to find C compiler"
    kernels_work.cache_clear()


def test_a_kernel_that_differs_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = {"a step": lambda is_fused: (torch.tensor([1.0, float("nan") if is_fused else 1.0]),)}
    monkeypatch.setattr(kernel_check, "cases", lambda *_: wrong)
    with pytest.raises(RuntimeError, match="a step by Triton kernels differs by nan from PyTorch"):
        require_agreement(CPU, torch.float32)
